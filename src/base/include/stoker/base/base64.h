#pragma once

#include <string>
#include <string_view>

#include <stoker/base/status.h>

namespace stoker::base {

/// Decodes base64 as RFC 4648 §4 has it, strictly: the standard alphabet, padding required, no
/// whitespace, no set bits beyond the last byte (so that each value has one text). Pure.
Result<std::string> DecodeBase64(std::string_view text);

}  // namespace stoker::base
