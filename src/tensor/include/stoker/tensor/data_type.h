#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace stoker::tensor {

/// Element types. The numbers are those of Triton's ModelConfig.
enum class DataType : uint8_t {
  kInvalid = 0,
  kBool = 1,
  kUint8 = 2,
  kUint16 = 3,
  kUint32 = 4,
  kUint64 = 5,
  kInt8 = 6,
  kInt16 = 7,
  kInt32 = 8,
  kInt64 = 9,
  kFp16 = 10,
  kFp32 = 11,
  kFp64 = 12,
  kBytes = 13,  // variable length: each element is a 4-byte little-endian length and that many bytes
  kBf16 = 14,
};

inline constexpr int kDataTypeCount = 15;

/// Bytes of one element; 0 for kBytes and kInvalid.
size_t ElementSize(DataType type);
/// The protocol's name: "FP32", "BYTES"; "<invalid>" for kInvalid.
std::string_view ProtocolName(DataType type);
/// The configuration's name: "TYPE_FP32", "TYPE_STRING".
std::string_view ConfigName(DataType type);
std::optional<DataType> ParseProtocolName(std::string_view name);

}  // namespace stoker::tensor
