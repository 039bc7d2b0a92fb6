#include "option_values.h"

#include <charconv>

#include <stoker/base/str_cat.h>

namespace stoker::apps {

using base::StrCat;

base::Status ReadBool(const std::string& text, bool* out) {
  std::string lower;
  for (const char c : text) lower += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  if (lower == "true" || lower == "1" || lower == "on" || lower == "yes") {
    *out = true;
  } else if (lower == "false" || lower == "0" || lower == "off" || lower == "no") {
    *out = false;
  } else {
    return base::InvalidArgument(StrCat("wants true or false, got ", base::Quoted(text)));
  }
  return base::OkStatus();
}

base::Status ReadInteger(const std::string& text, int64_t least, int64_t most, int64_t* out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  if (error != std::errc() || end != text.data() + text.size() || *out < least || *out > most) {
    return base::InvalidArgument(
        StrCat("wants a whole number from ", least, " to ", most, ", got ", base::Quoted(text)));
  }
  return base::OkStatus();
}

}  // namespace stoker::apps
