#include "grpc/typed_contents.h"

#include <array>
#include <cstring>
#include <limits>
#include <type_traits>

#include <stoker/base/str_cat.h>

#include "grpc/infer_reader.h"
#include "grpc/wire.h"

namespace stoker::serve {
namespace {

using base::StrCat;
using tensor::DataType;

constexpr uint32_t kFieldCount = 9;  // fields 1 to 8
constexpr size_t kBytesMax = std::numeric_limits<int32_t>::max();

/// A field of InferTensorContents: what it is called in messages, and how its numbers stand on the wire.
struct ContentsField {
  std::string_view name;
  WireType type;
};
constexpr std::array<ContentsField, kFieldCount> kFields = {{{"", WireType::kBytes},
                                                             {"BOOL", WireType::kVarint},
                                                             {"INT32", WireType::kVarint},
                                                             {"INT64", WireType::kVarint},
                                                             {"UINT32", WireType::kVarint},
                                                             {"UINT64", WireType::kVarint},
                                                             {"FP32", WireType::kFixed32},
                                                             {"FP64", WireType::kFixed64},
                                                             {"BYTES", WireType::kBytes}}};

/// The field that holds values of `type`; 0: none does.
uint32_t FieldOf(DataType type) {
  switch (type) {
    case DataType::kBool:
      return 1;
    case DataType::kInt8:
    case DataType::kInt16:
    case DataType::kInt32:
      return 2;
    case DataType::kInt64:
      return 3;
    case DataType::kUint8:
    case DataType::kUint16:
    case DataType::kUint32:
      return 4;
    case DataType::kUint64:
      return 5;
    case DataType::kFp32:
      return 6;
    case DataType::kFp64:
      return 7;
    case DataType::kBytes:
      return 8;
    default:
      return 0;
  }
}

size_t FixedSize(WireType type) { return type == WireType::kFixed32 ? 4 : 8; }

/// How many values a field of InferTensorContents carries; false when it is not well-formed.
bool CountValues(const WireField& field, size_t* count) {
  const WireType type = kFields[field.number].type;
  if (field.type == type) {
    *count = 1;
    return true;
  }
  *count = 0;
  if (!field.Is(WireType::kBytes)) return true;  // a wire type that does not belong here: skipped
  if (type == WireType::kVarint) {
    *count = CountVarints(field.bytes);
    return field.bytes.empty() || static_cast<uint8_t>(field.bytes.back()) < 0x80;
  }
  *count = field.bytes.size() / FixedSize(type);
  return field.bytes.size() % FixedSize(type) == 0;
}

/// What the first walk over the contents finds: how many values each field has.
struct Census {
  std::array<size_t, kFieldCount> values{};
  size_t string_bytes = 0;
};

bool TakeCensus(std::string_view contents, Census* census) {
  WireReader reader(contents);
  WireField field;
  while (reader.Next(&field)) {
    if (field.number >= kFieldCount) continue;
    size_t count = 0;
    if (!CountValues(field, &count)) return false;
    census->values[field.number] += count;
    if (field.number == 8 && field.Is(WireType::kBytes)) census->string_bytes += field.bytes.size();
  }
  return reader.ok();
}

base::Status CheckFields(const ContentsOwner& owner, DataType type, const Census& census) {
  const uint32_t wanted = FieldOf(type);
  bool supplied = false;
  for (uint32_t number = 1; number < kFieldCount; ++number) {
    if (census.values[number] == 0) continue;
    if (supplied) {
      return base::InvalidArgument(StrCat("unexpected explicit tensor data for input tensor '", owner.input,
                                          "' for model '", owner.model,
                                          "', binary data was already supplied."));
    }
    if (number != wanted) {
      return base::InvalidArgument(StrCat("unexpected explicit tensor data for input tensor '", owner.input,
                                          "' for model '", owner.model, "' of type '", kFields[number].name,
                                          "', expected datatype '", tensor::ProtocolName(type), "'"));
    }
    supplied = true;
  }
  return base::OkStatus();
}

/// Writes values of one integer field, of `Wire` numbers, as elements of type T.
template <typename T, typename Wire>
class IntegerFill {
 public:
  explicit IntegerFill(std::byte* out) : out_(out) {}

  /// False for a varint that cannot be read, or a value that T cannot hold (see `outside`).
  bool Take(const WireField& field) {
    if (field.Is(WireType::kVarint)) return Put(field.value);
    const char* at = field.bytes.data();
    const char* end = at + field.bytes.size();
    while (at != end) {
      uint64_t value = 0;
      if (!ReadVarint(&at, end, &value) || !Put(value)) return false;
    }
    return true;
  }

  bool outside = false;
  Wire value = 0;  // the one that is outside

 private:
  bool Put(uint64_t varint) {
    T element;
    if constexpr (std::is_same_v<Wire, bool>) {
      element = varint != 0;
    } else {
      value = static_cast<Wire>(varint);
      element = static_cast<T>(value);
      if (static_cast<Wire>(element) != value) {
        outside = true;
        return false;
      }
    }
    std::memcpy(out_, &element, sizeof(T));
    out_ += sizeof(T);
    return true;
  }

  std::byte* out_;
};

template <typename T, typename Wire>
base::Status FillIntegers(const ContentsOwner& owner, uint32_t number, std::string_view contents,
                          std::byte* out) {
  IntegerFill<T, Wire> fill(out);
  WireReader reader(contents);
  WireField field;
  while (reader.Next(&field)) {
    if (field.number != number || !(field.Is(WireType::kVarint) || field.Is(WireType::kBytes))) continue;
    if (fill.Take(field)) continue;
    if (!fill.outside) return MalformedMessage();
    return base::InvalidArgument(
        StrCat("value ", fill.value, " in the contents of input '", owner.input, "' for model '", owner.model,
               "' is outside of its datatype, which takes ", int64_t{std::numeric_limits<T>::min()}, " to ",
               static_cast<uint64_t>(std::numeric_limits<T>::max())));
  }
  return base::OkStatus();
}

void FillFixed(uint32_t number, std::string_view contents, std::byte* out) {
  const size_t size = FixedSize(kFields[number].type);
  WireReader reader(contents);
  WireField field;
  while (reader.Next(&field)) {
    if (field.number != number) continue;
    if (field.type == kFields[number].type) {
      std::memcpy(out, &field.value, size);
      out += size;
    } else if (field.Is(WireType::kBytes) && !field.bytes.empty()) {
      std::memcpy(out, field.bytes.data(), field.bytes.size());
      out += field.bytes.size();
    }
  }
}

void FillStrings(std::string_view contents, std::byte* out) {
  WireReader reader(contents);
  WireField field;
  while (reader.Next(&field)) {
    if (field.number != 8 || !field.Is(WireType::kBytes)) continue;
    const auto size = static_cast<uint32_t>(field.bytes.size());
    std::memcpy(out, &size, sizeof(size));
    out += sizeof(size);
    if (size > 0) std::memcpy(out, field.bytes.data(), size);
    out += size;
  }
}

base::Status Fill(const ContentsOwner& owner, DataType type, std::string_view contents, std::byte* out) {
  const uint32_t number = FieldOf(type);
  switch (type) {
    case DataType::kBool:
      return FillIntegers<uint8_t, bool>(owner, number, contents, out);
    case DataType::kInt8:
      return FillIntegers<int8_t, int32_t>(owner, number, contents, out);
    case DataType::kInt16:
      return FillIntegers<int16_t, int32_t>(owner, number, contents, out);
    case DataType::kInt32:
      return FillIntegers<int32_t, int32_t>(owner, number, contents, out);
    case DataType::kInt64:
      return FillIntegers<int64_t, int64_t>(owner, number, contents, out);
    case DataType::kUint8:
      return FillIntegers<uint8_t, uint32_t>(owner, number, contents, out);
    case DataType::kUint16:
      return FillIntegers<uint16_t, uint32_t>(owner, number, contents, out);
    case DataType::kUint32:
      return FillIntegers<uint32_t, uint32_t>(owner, number, contents, out);
    case DataType::kUint64:
      return FillIntegers<uint64_t, uint64_t>(owner, number, contents, out);
    case DataType::kBytes:
      FillStrings(contents, out);
      return base::OkStatus();
    default:
      FillFixed(number, contents, out);
      return base::OkStatus();
  }
}

}  // namespace

base::Result<base::Bytes> ConvertContents(const ContentsOwner& owner, DataType type,
                                          std::string_view contents) {
  Census census;
  if (!TakeCensus(contents, &census)) return MalformedMessage();
  STOKER_RETURN_IF_ERROR(CheckFields(owner, type, census));
  const uint32_t number = FieldOf(type);
  if (number == 0 || census.values[number] == 0) return base::Bytes();
  // Counts are bounded by the bytes of the message, so nothing here overflows.
  const size_t element = type == DataType::kBytes ? sizeof(uint32_t) : tensor::ElementSize(type);
  const size_t bytes = census.values[number] * element + census.string_bytes;
  if (bytes > kBytesMax) {
    return base::ResourceExhausted(StrCat("contents of input '", owner.input, "' for model '", owner.model,
                                          "' take ", bytes, " bytes of memory, at most ", kBytesMax,
                                          " are taken; send raw_input_contents"));
  }
  auto memory = base::MutableBytes::Allocate(bytes);
  STOKER_RETURN_IF_ERROR(Fill(owner, type, contents, memory.data()));
  return std::move(memory).Freeze();
}

}  // namespace stoker::serve
