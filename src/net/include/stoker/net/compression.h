#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <stoker/base/bytes.h>
#include <stoker/base/status.h>

namespace stoker::net {

enum class ContentCoding : unsigned char {
  kIdentity,
  kGzip,
  kDeflate
};  // deflate: the zlib format of RFC 1950

/// Decompresses a whole body. kInvalidArgument for a broken or truncated one or trailing rubbish,
/// kResourceExhausted as soon as more than `bytes_max` would come out (before it is allocated).
/// Raw deflate streams are taken for kDeflate too, as browsers do.
base::Result<base::Bytes> Decompress(ContentCoding coding, std::span<const std::byte> data, size_t bytes_max);

/// Compresses the concatenation of `parts` (level 1: speed matters more than size here).
base::Bytes Compress(ContentCoding coding, std::span<const base::Bytes> parts);

/// The coding to answer with for an Accept-Encoding header: the one with the highest q among gzip
/// and deflate; identity when neither is named (so for "*" alone) or all have q=0.
ContentCoding ChooseCoding(std::string_view accept_encoding);

}  // namespace stoker::net
