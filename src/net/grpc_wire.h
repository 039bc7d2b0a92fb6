#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace stoker::net::internal {

// The small encodings of gRPC over HTTP/2. Pure functions.

/// grpc-timeout: 1 to 8 digits and one of H M S m u n. At most 30 years come out; nothing for
/// anything else.
std::optional<int64_t> ParseGrpcTimeout(std::string_view text);

/// "application/grpc", alone or followed by "+codec" or ";parameters".
bool IsGrpcContentType(std::string_view value);

/// Whether `coding` is one of the comma-separated names of grpc-accept-encoding.
bool AcceptsCoding(std::string_view accepted, std::string_view coding);

/// grpc-message: bytes outside of printable ASCII, and '%', become %XX. Cut (between characters of
/// UTF-8) so that at most `bytes_max` come out.
std::string EncodeGrpcMessage(std::string_view text, size_t bytes_max);

/// Values of -bin metadata: base64 (RFC 4648), written without padding, read with or without.
std::string EncodeBase64(std::string_view data);
std::optional<std::string> DecodeBase64(std::string_view text);

/// Whether a name or value may stand in a header we send.
bool IsMetadataName(std::string_view name);
bool IsMetadataValue(std::string_view value);

}  // namespace stoker::net::internal
