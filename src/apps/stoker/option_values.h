#pragma once

#include <cstdint>
#include <string>

#include <stoker/base/status.h>

namespace stoker::apps {

/// Triton's spellings of truth: true/false, 1/0, on/off, yes/no in any case.
base::Status ReadBool(const std::string& text, bool* out);
/// A whole number in [least, most].
base::Status ReadInteger(const std::string& text, int64_t least, int64_t most, int64_t* out);

}  // namespace stoker::apps
