#include "parameters_internal.h"

#include <charconv>
#include <cmath>

#include <stoker/base/str_cat.h>

namespace stoker::engines::internal {
namespace {

base::Status Malformed(const ModelSpec& spec, std::string_view key, std::string_view wanted) {
  return base::InvalidArgument(base::StrCat(ModelLabel(spec), ": parameter '", key, "' has the value ",
                                            base::Quoted(*FindParameter(spec, key)), "; expected ", wanted));
}

template <typename T>
bool ParseWhole(std::string_view text, T* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size();
}

std::string Upper(std::string text) {
  for (char& c : text) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return text;
}

}  // namespace

const std::string* FindParameter(const ModelSpec& spec, std::string_view key) {
  const auto found = spec.parameters.find(std::string(key));
  return found == spec.parameters.end() ? nullptr : &found->second;
}

base::Result<std::optional<int64_t>> IntParameter(const ModelSpec& spec, std::string_view key,
                                                  IntRange range) {
  const std::string* text = FindParameter(spec, key);
  if (text == nullptr) return std::optional<int64_t>();
  int64_t value = 0;
  if (!ParseWhole(*text, &value) || value < range.min || value > range.max) {
    return Malformed(spec, key, base::StrCat("a whole number from ", range.min, " to ", range.max));
  }
  return std::optional(value);
}

base::Result<std::optional<double>> RealParameter(const ModelSpec& spec, std::string_view key) {
  const std::string* text = FindParameter(spec, key);
  if (text == nullptr) return std::optional<double>();
  double value = 0;
  if (!ParseWhole(*text, &value) || !std::isfinite(value)) return Malformed(spec, key, "a decimal number");
  return std::optional(value);
}

base::Result<std::optional<bool>> BoolParameter(const ModelSpec& spec, std::string_view key) {
  const std::string* text = FindParameter(spec, key);
  if (text == nullptr) return std::optional<bool>();
  const std::string upper = Upper(*text);
  if (upper == "YES" || upper == "TRUE" || upper == "ON" || upper == "1") return std::optional(true);
  if (upper == "NO" || upper == "FALSE" || upper == "OFF" || upper == "0") return std::optional(false);
  return Malformed(spec, key, "YES or NO");
}

std::string ModelLabel(const ModelSpec& spec) {
  return base::StrCat("model '", spec.name, "' version ", spec.version);
}

}  // namespace stoker::engines::internal
