#include "http/json_tensor.h"

#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include <stoker/base/str_cat.h>

namespace stoker::serve {
namespace {

using base::StrCat;
using tensor::DataType;

/// Whole numbers beyond a type of up to 32 bits are a fault of the values; everything else that cannot be
/// read is a fault of the JSON.
template <typename T>
base::Status DataError(const base::Status& status) {
  const std::string message = StrCat("Unable to parse 'data': ", status.message());
  const bool narrow = std::is_integral_v<T> && sizeof(T) < sizeof(int64_t);
  if (narrow && status.code() == base::StatusCode::kOutOfRange) return base::InvalidArgument(message);
  return base::Internal(message);
}

template <typename T>
base::Result<base::Bytes> ReadAs(base::JsonReader* reader, size_t count) {
  base::MutableBytes memory = base::MutableBytes::Allocate(count * sizeof(T));
  const base::Status status = reader->ReadNumbers(reinterpret_cast<T*>(memory.data()), count);
  if (!status.ok()) return DataError<T>(status);
  return std::move(memory).Freeze();
}

base::Result<base::Bytes> ReadTexts(base::JsonReader* reader, size_t count) {
  std::string data;
  size_t found = 0;
  const base::Status status = reader->ReadStrings([&data, &found](std::string_view text) {
    tensor::AppendBytesElement(&data, text);
    ++found;
    return base::OkStatus();
  });
  if (!status.ok()) return DataError<std::string>(status);
  if (found != count) {
    return base::Internal(StrCat("Unable to parse 'data': Shape does not match true shape of 'data' field: ",
                                 found, " elements, expecting ", count));
  }
  return base::Bytes::Own(std::move(data));
}

template <typename T>
void WriteAs(const base::Bytes& bytes, base::JsonWriter* json) {
  const size_t count = bytes.size() / sizeof(T);
  if (reinterpret_cast<uintptr_t>(bytes.data()) % alignof(T) == 0) {
    json->Numbers(std::span<const T>(reinterpret_cast<const T*>(bytes.data()), count));
    return;
  }
  std::vector<T> aligned(count);
  if (count > 0) std::memcpy(aligned.data(), bytes.data(), count * sizeof(T));
  json->Numbers(std::span<const T>(aligned));
}

void WriteTruths(const base::Bytes& bytes, base::JsonWriter* json) {
  json->BeginArray();
  for (const std::byte b : bytes.span()) json->Bool(b != std::byte{0});
  json->EndArray();
}

base::Status WriteTexts(std::string_view output, const base::Bytes& bytes, base::JsonWriter* json) {
  tensor::BytesReader reader(bytes.span());
  std::string_view element;
  json->BeginArray();
  while (reader.Next(&element)) json->String(element);
  json->EndArray();
  if (!reader.ok()) {
    return base::Internal(
        StrCat("output '", output, "' has malformed string data at byte ", reader.consumed()));
  }
  return base::OkStatus();
}

base::Status NoJsonForm(std::string_view direction, DataType type, std::string_view advice) {
  return base::InvalidArgument(
      StrCat(direction, " ", tensor::ProtocolName(type),
             " data via JSON is not supported. Please use the binary data format for ", advice));
}

}  // namespace

base::Result<base::Bytes> ReadJsonTensor(base::JsonReader* reader, size_t text_bytes, DataType type,
                                         const tensor::Shape& shape) {
  const auto elements = shape.ElementCount(std::max<size_t>(1, tensor::ElementSize(type)));
  if (!elements.ok()) return elements.status();
  const auto count = static_cast<size_t>(*elements);
  if (count > text_bytes) {
    return base::Internal(
        StrCat("Unable to parse 'data': Shape does not match true shape of 'data' field: shape ",
               shape.ToString(), " has more elements than the text"));
  }
  switch (type) {
    case DataType::kBool:
      return ReadAs<bool>(reader, count);
    case DataType::kUint8:
      return ReadAs<uint8_t>(reader, count);
    case DataType::kUint16:
      return ReadAs<uint16_t>(reader, count);
    case DataType::kUint32:
      return ReadAs<uint32_t>(reader, count);
    case DataType::kUint64:
      return ReadAs<uint64_t>(reader, count);
    case DataType::kInt8:
      return ReadAs<int8_t>(reader, count);
    case DataType::kInt16:
      return ReadAs<int16_t>(reader, count);
    case DataType::kInt32:
      return ReadAs<int32_t>(reader, count);
    case DataType::kInt64:
      return ReadAs<int64_t>(reader, count);
    case DataType::kFp32:
      return ReadAs<float>(reader, count);
    case DataType::kFp64:
      return ReadAs<double>(reader, count);
    case DataType::kBytes:
      return ReadTexts(reader, count);
    default:
      return NoJsonForm("receiving", type, "input");
  }
}

base::Status WriteJsonTensor(std::string_view output, const tensor::Tensor& tensor, base::JsonWriter* json) {
  switch (tensor.type) {
    case DataType::kBool:
      WriteTruths(tensor.bytes, json);
      break;
    case DataType::kUint8:
      WriteAs<uint8_t>(tensor.bytes, json);
      break;
    case DataType::kUint16:
      WriteAs<uint16_t>(tensor.bytes, json);
      break;
    case DataType::kUint32:
      WriteAs<uint32_t>(tensor.bytes, json);
      break;
    case DataType::kUint64:
      WriteAs<uint64_t>(tensor.bytes, json);
      break;
    case DataType::kInt8:
      WriteAs<int8_t>(tensor.bytes, json);
      break;
    case DataType::kInt16:
      WriteAs<int16_t>(tensor.bytes, json);
      break;
    case DataType::kInt32:
      WriteAs<int32_t>(tensor.bytes, json);
      break;
    case DataType::kInt64:
      WriteAs<int64_t>(tensor.bytes, json);
      break;
    case DataType::kFp32:
      WriteAs<float>(tensor.bytes, json);
      break;
    case DataType::kFp64:
      WriteAs<double>(tensor.bytes, json);
      break;
    case DataType::kBytes:
      return WriteTexts(output, tensor.bytes, json);
    default:
      return NoJsonForm("sending", tensor.type, StrCat("output '", output, "'"));
  }
  return base::OkStatus();
}

}  // namespace stoker::serve
