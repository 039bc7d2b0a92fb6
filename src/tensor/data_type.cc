#include <stoker/tensor/data_type.h>

namespace stoker::tensor {
namespace {

struct Row {
  std::string_view protocol;
  std::string_view config;
  size_t size;
};

constexpr Row kRows[kDataTypeCount] = {
    {"<invalid>", "TYPE_INVALID", 0}, {"BOOL", "TYPE_BOOL", 1},     {"UINT8", "TYPE_UINT8", 1},
    {"UINT16", "TYPE_UINT16", 2},     {"UINT32", "TYPE_UINT32", 4}, {"UINT64", "TYPE_UINT64", 8},
    {"INT8", "TYPE_INT8", 1},         {"INT16", "TYPE_INT16", 2},   {"INT32", "TYPE_INT32", 4},
    {"INT64", "TYPE_INT64", 8},       {"FP16", "TYPE_FP16", 2},     {"FP32", "TYPE_FP32", 4},
    {"FP64", "TYPE_FP64", 8},         {"BYTES", "TYPE_STRING", 0},  {"BF16", "TYPE_BF16", 2},
};

const Row& RowOf(DataType type) {
  const auto index = static_cast<size_t>(type);
  return kRows[index < kDataTypeCount ? index : 0];
}

}  // namespace

size_t ElementSize(DataType type) { return RowOf(type).size; }
std::string_view ProtocolName(DataType type) { return RowOf(type).protocol; }
std::string_view ConfigName(DataType type) { return RowOf(type).config; }

std::optional<DataType> ParseProtocolName(std::string_view name) {
  for (int i = 1; i < kDataTypeCount; ++i) {
    if (kRows[i].protocol == name) return static_cast<DataType>(i);
  }
  return std::nullopt;
}

}  // namespace stoker::tensor
