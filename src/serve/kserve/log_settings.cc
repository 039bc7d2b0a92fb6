#include "kserve/log_settings.h"

#include <limits>

#include <stoker/base/str_cat.h>

namespace stoker::serve {
namespace {

using base::StrCat;

base::Status WrongKind(std::string_view name, std::string_view wanted) {
  return base::InvalidArgument(StrCat("log setting '", name, "' must be ", wanted));
}

base::Status ApplyVerbosity(const LogSettingValue& value, uint32_t* out) {
  const auto* number = std::get_if<int64_t>(&value);
  if (number == nullptr || *number < 0 || *number > std::numeric_limits<uint32_t>::max()) {
    return WrongKind("log_verbose_level", "an unsigned integer");
  }
  *out = static_cast<uint32_t>(*number);
  return base::OkStatus();
}

base::Status ApplyFormat(const LogSettingValue& value, observe::LogFormat* out) {
  const auto* text = std::get_if<std::string>(&value);
  if (text == nullptr) return WrongKind("log_format", "a string");
  if (*text == "default") {
    *out = observe::LogFormat::kDefault;
  } else if (*text == "ISO8601") {
    *out = observe::LogFormat::kIso8601;
  } else {
    return base::Unavailable(StrCat("Attempt to set log_format to an unknown format ", base::Quoted(*text),
                                    "; 'default' and 'ISO8601' are known"));
  }
  return base::OkStatus();
}

}  // namespace

base::Status ApplyLogSetting(std::string_view name, const LogSettingValue& value,
                             observe::LogSettings* settings) {
  bool* flag = name == "log_info"      ? &settings->info
               : name == "log_warning" ? &settings->warning
               : name == "log_error"   ? &settings->error
                                       : nullptr;
  if (flag != nullptr) {
    const auto* given = std::get_if<bool>(&value);
    if (given == nullptr) return WrongKind(name, "true or false");
    *flag = *given;
  }
  if (name == "log_verbose_level") return ApplyVerbosity(value, &settings->verbose_level);
  if (name == "log_format") return ApplyFormat(value, &settings->format);
  if (name == "log_file") {
    return base::Unimplemented(
        "the log file cannot be changed while the server runs; start it with --log-file");
  }
  return base::OkStatus();
}

std::string_view LogFormatName(observe::LogFormat format) {
  return format == observe::LogFormat::kIso8601 ? "ISO8601" : "default";
}

}  // namespace stoker::serve
