#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <stoker/base/json.h>
#include <stoker/base/str_cat.h>

#include "repository/config_text.h"

namespace stoker::host {
namespace {

using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

void WriteMessage(const Message& message, base::JsonWriter* json);

void WriteEnum(const FieldDescriptor& field, int number, base::JsonWriter* json) {
  const EnumValueDescriptor* value = field.enum_type()->FindValueByNumber(number);
  if (value != nullptr) {
    json->String(value->name());
  } else {
    json->Int(number);
  }
}

void WriteSingle(const Message& message, const FieldDescriptor& field, base::JsonWriter* json) {
  const Reflection& r = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      json->Int(r.GetInt32(message, &field));
      break;
    case FieldDescriptor::CPPTYPE_INT64:
      json->Int(r.GetInt64(message, &field));
      break;
    case FieldDescriptor::CPPTYPE_UINT32:
      json->Uint(r.GetUInt32(message, &field));
      break;
    case FieldDescriptor::CPPTYPE_UINT64:
      json->Uint(r.GetUInt64(message, &field));
      break;
    case FieldDescriptor::CPPTYPE_FLOAT:
      json->Float(r.GetFloat(message, &field));
      break;
    case FieldDescriptor::CPPTYPE_DOUBLE:
      json->Double(r.GetDouble(message, &field));
      break;
    case FieldDescriptor::CPPTYPE_BOOL:
      json->Bool(r.GetBool(message, &field));
      break;
    case FieldDescriptor::CPPTYPE_ENUM:
      WriteEnum(field, r.GetEnumValue(message, &field), json);
      break;
    case FieldDescriptor::CPPTYPE_STRING:
      json->String(r.GetString(message, &field));
      break;
    case FieldDescriptor::CPPTYPE_MESSAGE:
      WriteMessage(r.GetMessage(message, &field), json);
      break;
  }
}

void WriteElement(const Message& message, const FieldDescriptor& field, int i, base::JsonWriter* json) {
  const Reflection& r = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      json->Int(r.GetRepeatedInt32(message, &field, i));
      break;
    case FieldDescriptor::CPPTYPE_INT64:
      json->Int(r.GetRepeatedInt64(message, &field, i));
      break;
    case FieldDescriptor::CPPTYPE_UINT32:
      json->Uint(r.GetRepeatedUInt32(message, &field, i));
      break;
    case FieldDescriptor::CPPTYPE_UINT64:
      json->Uint(r.GetRepeatedUInt64(message, &field, i));
      break;
    case FieldDescriptor::CPPTYPE_FLOAT:
      json->Float(r.GetRepeatedFloat(message, &field, i));
      break;
    case FieldDescriptor::CPPTYPE_DOUBLE:
      json->Double(r.GetRepeatedDouble(message, &field, i));
      break;
    case FieldDescriptor::CPPTYPE_BOOL:
      json->Bool(r.GetRepeatedBool(message, &field, i));
      break;
    case FieldDescriptor::CPPTYPE_ENUM:
      WriteEnum(field, r.GetRepeatedEnumValue(message, &field, i), json);
      break;
    case FieldDescriptor::CPPTYPE_STRING:
      json->String(r.GetRepeatedString(message, &field, i));
      break;
    case FieldDescriptor::CPPTYPE_MESSAGE:
      WriteMessage(r.GetRepeatedMessage(message, &field, i), json);
      break;
  }
}

std::string KeyText(const Message& entry, const FieldDescriptor& key) {
  const Reflection& r = *entry.GetReflection();
  if (key.cpp_type() == FieldDescriptor::CPPTYPE_UINT64) return base::StrCat(r.GetUInt64(entry, &key));
  return r.GetString(entry, &key);
}

void WriteMap(const Message& message, const FieldDescriptor& field, base::JsonWriter* json) {
  const Reflection& r = *message.GetReflection();
  json->BeginObject();
  for (int i = 0; i < r.FieldSize(message, &field); ++i) {
    const Message& entry = r.GetRepeatedMessage(message, &field, i);
    json->Key(KeyText(entry, *field.message_type()->map_key()));
    WriteSingle(entry, *field.message_type()->map_value(), json);
  }
  json->EndObject();
}

void WriteField(const Message& message, const FieldDescriptor& field, base::JsonWriter* json) {
  const Reflection& r = *message.GetReflection();
  const bool nested = field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && !field.is_repeated();
  const bool choice = field.containing_oneof() != nullptr;
  if ((nested || choice) && !r.HasField(message, &field)) return;
  json->Key(field.name());
  if (field.is_map()) return WriteMap(message, field, json);
  if (!field.is_repeated()) return WriteSingle(message, field, json);
  json->BeginArray();
  for (int i = 0; i < r.FieldSize(message, &field); ++i) WriteElement(message, field, i, json);
  json->EndArray();
}

void WriteMessage(const Message& message, base::JsonWriter* json) {
  json->BeginObject();
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i)
    WriteField(message, *message.GetDescriptor()->field(i), json);
  json->EndObject();
}

}  // namespace

std::string ConfigToJson(const inference::ModelConfig& config) {
  std::string out;
  base::JsonWriter json(&out);
  WriteMessage(config, &json);
  return out;
}

}  // namespace stoker::host
