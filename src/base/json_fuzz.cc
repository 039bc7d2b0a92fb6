// Any text: the reader that skips and the one that builds a tree agree on what is JSON, and a tree
// that is written and read again is written the same.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include <stoker/base/json.h>
#include <stoker/base/utf8.h>

namespace {

using stoker::base::JsonReader;
using stoker::base::JsonValue;
using stoker::base::JsonWriter;
using stoker::base::Result;
using stoker::base::Status;
using stoker::base::StatusCode;

void Require(bool holds) {
  if (!holds) std::abort();
}

Status SkipAll(std::string_view text) {
  JsonReader reader(text);
  const Result<std::string_view> skipped = reader.Skip();
  return skipped.ok() ? reader.Finish() : skipped.status();
}

void CheckNumbers(std::string_view text) {
  for (size_t count = 0; count < 4; ++count) {
    std::vector<double> doubles(count);
    std::vector<float> floats(count);
    std::vector<int64_t> wide(count);
    std::vector<int8_t> narrow(count);
    JsonReader reader(text);
    const bool read = reader.ReadNumbers(doubles.data(), count).ok();
    Require(JsonReader(text).ReadNumbers(floats.data(), count).ok() == read);
    const bool whole = JsonReader(text).ReadNumbers(wide.data(), count).ok();
    const bool small = JsonReader(text).ReadNumbers(narrow.data(), count).ok();
    Require(read || !whole);
    Require(whole || !small);
    for (size_t i = 0; small && i < count; ++i) Require(narrow[i] == wide[i]);
    for (size_t i = 0; whole && i < count; ++i) Require(static_cast<double>(wide[i]) == doubles[i]);
    if (!read) continue;
    std::string again;
    JsonWriter(&again).Numbers<double>(doubles);
    std::vector<double> back(count);
    Require(JsonReader(again).ReadNumbers(back.data(), count).ok());
    for (size_t i = 0; i < count; ++i)
      Require(back[i] == doubles[i] || (back[i] != back[i] && doubles[i] != doubles[i]));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Result<JsonValue> tree = JsonValue::Parse(text);
  const Status skipped = SkipAll(text);
  // Skipping checks syntax alone: only a number beyond a double passes it and no tree.
  Require(tree.ok() == skipped.ok() || tree.status().code() == StatusCode::kOutOfRange);
  if (tree.ok()) {
    std::string once;
    tree->AppendTo(&once);
    Require(stoker::base::IsUtf8(once));
    const Result<JsonValue> again = JsonValue::Parse(once);
    Require(again.ok());
    std::string twice;
    again->AppendTo(&twice);
    Require(once == twice);
  }
  CheckNumbers(text);
  JsonReader(text)
      .ReadStrings([](std::string_view leaf) {
        Require(stoker::base::IsUtf8(leaf));
        std::string quoted;
        stoker::base::AppendJsonString(&quoted, leaf);
        JsonReader back(quoted);
        Require(*back.ReadString() == leaf);
        return stoker::base::OkStatus();
      })
      .ok();
  return 0;
}
