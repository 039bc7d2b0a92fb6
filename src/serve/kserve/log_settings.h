#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include <stoker/base/status.h>
#include <stoker/observe/log.h>

namespace stoker::serve {

/// A setting as a protocol gives it; nothing for a value of any other kind.
using LogSettingValue = std::variant<std::monostate, bool, int64_t, std::string>;

/// Puts one setting of the logging extension into `settings`. Unknown names change nothing, as in
/// Triton; a value of the wrong kind is kInvalidArgument, an unknown format kUnavailable, the file
/// kUnimplemented.
base::Status ApplyLogSetting(std::string_view name, const LogSettingValue& value,
                             observe::LogSettings* settings);

/// The protocol's name of a format.
std::string_view LogFormatName(observe::LogFormat format);

}  // namespace stoker::serve
