#include "model_table.h"

#include <algorithm>
#include <charconv>

#include <stoker/base/str_cat.h>

namespace stoker::host {
namespace {

using base::StrCat;

std::string InQuotes(std::string_view name) {
  std::string text = base::Quoted(name);
  text.front() = text.back() = '\'';
  return text;
}

base::Status Unknown(std::string_view name, std::string_view rest) {
  return base::NotFound(StrCat("Request for unknown model: ", InQuotes(name), rest));
}

}  // namespace

base::Result<ServedRef> ModelTable::Find(std::string_view name, std::string_view version) const {
  int64_t number = -1;
  if (!version.empty()) {
    const char* end = version.data() + version.size();
    const auto [at, error] = std::from_chars(version.data(), end, number);
    if (error != std::errc() || at != end) {
      return base::InvalidArgument(StrCat("failed to get model version from specified version string ",
                                          InQuotes(version),
                                          " (details: stol), version should be an integral value > 0"));
    }
  }
  const auto found = models.find(name);
  if (found == models.end()) {
    return Unknown(
        name, version.empty() ? std::string(" is not found") : StrCat(" version ", number, " is not found"));
  }
  const Entry& entry = found->second;
  if (version.empty()) {
    if (entry.ready.empty()) return Unknown(name, " has no available versions");
    return entry.ready.back().second;
  }
  for (const auto& [candidate, model] : entry.ready) {
    if (candidate == number) return model;
  }
  if (std::find(entry.other.begin(), entry.other.end(), number) != entry.other.end()) {
    return base::Unavailable(
        StrCat("Request for unknown model: ", InQuotes(name), " version ", number, " is not at ready state"));
  }
  return Unknown(name, StrCat(" version ", number, " is not found"));
}

}  // namespace stoker::host
