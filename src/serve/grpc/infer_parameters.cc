#include "grpc/infer_parameters.h"

#include <algorithm>
#include <bit>

#include <stoker/base/str_cat.h>
#include <stoker/base/utf8.h>

#include "grpc/infer_reader.h"
#include "grpc/wire.h"

namespace stoker::serve {
namespace {

/// InferParameter; of several choices the last counts.
bool ReadValue(std::string_view message, std::optional<host::ParameterValue>* value) {
  WireReader reader(message);
  WireField field;
  while (reader.Next(&field)) {
    const bool varint = field.Is(WireType::kVarint);
    if (field.number == 1 && varint) *value = field.value != 0;
    if (field.number == 2 && varint) *value = static_cast<int64_t>(field.value);
    if (field.number == 3 && field.Is(WireType::kBytes)) {
      if (!base::IsUtf8(field.bytes)) return false;
      *value = std::string(field.bytes);
    }
    if (field.number == 4 && field.Is(WireType::kFixed64)) *value = std::bit_cast<double>(field.value);
    if (field.number == 5 && varint) *value = field.value;
  }
  return reader.ok();
}

}  // namespace

base::Result<WireParameter> ReadParameter(std::string_view entry) {
  WireParameter parameter;
  WireReader reader(entry);
  WireField field;
  while (reader.Next(&field)) {
    if (!field.Is(WireType::kBytes)) continue;
    if (field.number == 1) {
      if (!base::IsUtf8(field.bytes)) return MalformedMessage();
      parameter.key = field.bytes;
    }
    if (field.number == 2 && !ReadValue(field.bytes, &parameter.value)) return MalformedMessage();
  }
  if (!reader.ok()) return MalformedMessage();
  return parameter;
}

void KeepLastOfEachKey(std::vector<WireParameter>* parameters) {
  if (parameters->size() < 2) return;
  std::stable_sort(parameters->begin(), parameters->end(),
                   [](const WireParameter& a, const WireParameter& b) { return a.key < b.key; });
  size_t kept = 0;
  for (size_t i = 0; i < parameters->size(); ++i) {
    const bool last = i + 1 == parameters->size() || (*parameters)[i + 1].key != (*parameters)[i].key;
    if (!last) continue;
    if (kept != i) (*parameters)[kept] = std::move((*parameters)[i]);
    ++kept;
  }
  parameters->resize(kept);
}

base::Status WrongParameterKind(std::string_view key, std::string_view wanted) {
  std::string name = base::Quoted(key);
  name.front() = name.back() = '\'';
  return base::InvalidArgument(
      base::StrCat("invalid value type for ", name, " parameter, expected ", wanted, "."));
}

}  // namespace stoker::serve
