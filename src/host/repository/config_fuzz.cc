// Any text as config.pbtxt and as its JSON form: no crash, and what is accepted prints as valid JSON.
#include <cstdlib>

#include <stoker/base/json.h>

#include "repository/config_support.h"
#include "repository/config_text.h"
#include "repository/config_values.h"

using stoker::host::ParsedConfig;

namespace {

void Use(const stoker::base::Result<ParsedConfig>& parsed) {
  if (!parsed.ok()) return;
  std::vector<std::string> warnings;
  static_cast<void>(stoker::host::CheckSupported(*parsed, &warnings).ok());
  static_cast<void>(stoker::host::ToValues(*parsed).ok());
  const std::string json = stoker::host::ConfigToJson(parsed->config);
  if (!stoker::base::JsonValue::Parse(json).ok()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  Use(stoker::host::ParseConfigText("config.pbtxt", text));
  Use(stoker::host::ParseConfigJson(text));
  return 0;
}
