#include <charconv>

#include <stoker/base/json.h>
#include <stoker/base/str_cat.h>

namespace stoker::base {

Status JsonValue::ParseScalar(JsonReader* reader, JsonKind kind, JsonValue* value) {
  switch (kind) {
    case JsonKind::kNull:
      return reader->ReadNull();
    case JsonKind::kBool: {
      STOKER_ASSIGN_OR_RETURN(value->bool_, reader->ReadBool());
      return OkStatus();
    }
    case JsonKind::kString: {
      STOKER_ASSIGN_OR_RETURN(value->text_, reader->ReadString());
      return OkStatus();
    }
    case JsonKind::kNumber: {
      std::string_view text;
      STOKER_ASSIGN_OR_RETURN(value->number_, reader->ReadDouble(&text));
      value->text_ = text;
      return OkStatus();
    }
    default:
      return reader->Skip().status();  // the end of the text: says so
  }
}

Result<JsonValue> JsonValue::Parse(std::string_view text, JsonLimits limits) {
  JsonReader reader(text, limits);
  JsonValue root;
  // Containers being read, innermost last. A parent's children do not move while one of them is open.
  std::vector<JsonValue*> open;
  size_t values = 0;
  do {
    JsonValue* value = &root;
    if (!open.empty()) {
      JsonValue* const parent = open.back();
      const bool in_object = parent->kind_ == JsonKind::kObject;
      std::string_view key;
      STOKER_ASSIGN_OR_RETURN(const bool more, in_object ? reader.NextKey(&key) : reader.NextElement());
      if (!more) {
        open.pop_back();
        continue;
      }
      if (++values > limits.values) {
        return ResourceExhausted(StrCat("JSON with more than ", limits.values, " values; send fewer"));
      }
      value = in_object ? &parent->object_.emplace_back(std::string(key), JsonValue()).second
                        : &parent->array_.emplace_back();
    }
    STOKER_ASSIGN_OR_RETURN(value->kind_, reader.Peek());
    if (value->kind_ == JsonKind::kObject) {
      STOKER_RETURN_IF_ERROR(reader.EnterObject());
      open.push_back(value);
    } else if (value->kind_ == JsonKind::kArray) {
      STOKER_RETURN_IF_ERROR(reader.EnterArray());
      open.push_back(value);
    } else {
      STOKER_RETURN_IF_ERROR(ParseScalar(&reader, value->kind_, value));
    }
  } while (!open.empty());
  STOKER_RETURN_IF_ERROR(reader.Finish());
  return root;
}

std::optional<int64_t> JsonValue::integer() const {
  int64_t value = 0;
  const char* const end = text_.data() + text_.size();
  const auto [last, error] = std::from_chars(text_.data(), end, value);
  if (kind_ != JsonKind::kNumber || error != std::errc() || last != end) return std::nullopt;
  return value;
}

const JsonValue* JsonValue::Find(std::string_view key) const {
  for (const auto& [name, value] : object_) {
    if (name == key) return &value;
  }
  return nullptr;
}

void JsonValue::AppendTo(std::string* out) const {
  JsonWriter writer(out);
  struct Level {
    const JsonValue* container;
    size_t next;
  };
  std::vector<Level> open;
  const JsonValue* value = this;
  for (;;) {
    switch (value->kind_) {
      case JsonKind::kBool:
        writer.Bool(value->bool_);
        break;
      case JsonKind::kNumber:
        writer.Raw(value->text_);
        break;
      case JsonKind::kString:
        writer.String(value->text_);
        break;
      case JsonKind::kArray:
        writer.BeginArray();
        open.push_back({value, 0});
        break;
      case JsonKind::kObject:
        writer.BeginObject();
        open.push_back({value, 0});
        break;
      default:
        writer.Null();
    }
    for (;;) {
      if (open.empty()) return;
      const JsonValue& container = *open.back().container;
      const bool in_object = container.kind_ == JsonKind::kObject;
      const size_t i = open.back().next++;
      if (i < (in_object ? container.object_.size() : container.array_.size())) {
        if (in_object) writer.Key(container.object_[i].first);
        value = in_object ? &container.object_[i].second : &container.array_[i];
        break;
      }
      in_object ? writer.EndObject() : writer.EndArray();
      open.pop_back();
    }
  }
}

}  // namespace stoker::base
