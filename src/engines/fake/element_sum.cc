#include "fake/element_sum.h"

#include <immintrin.h>

#include <bit>
#include <cstdint>
#include <cstring>

#include <stoker/base/str_cat.h>

namespace stoker::engines::internal {
namespace {

using tensor::DataType;

template <typename T>
double SumOf(const std::byte* data, size_t count) {
  double sum = 0;
  for (size_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, data + i * sizeof(T), sizeof(T));
    sum += static_cast<double>(value);
  }
  return sum;
}

double SumOfHalves(const std::byte* data, size_t count, DataType type) {
  double sum = 0;
  for (size_t i = 0; i < count; ++i) {
    uint16_t bits;
    std::memcpy(&bits, data + i * sizeof(bits), sizeof(bits));
    sum +=
        type == DataType::kBf16 ? std::bit_cast<float>(static_cast<uint32_t>(bits) << 16) : _cvtsh_ss(bits);
  }
  return sum;
}

double SumOfElements(DataType type, const std::byte* data, size_t count) {
  switch (type) {
    case DataType::kBool:
    case DataType::kUint8:
      return SumOf<uint8_t>(data, count);
    case DataType::kUint16:
      return SumOf<uint16_t>(data, count);
    case DataType::kUint32:
      return SumOf<uint32_t>(data, count);
    case DataType::kUint64:
      return SumOf<uint64_t>(data, count);
    case DataType::kInt8:
      return SumOf<int8_t>(data, count);
    case DataType::kInt16:
      return SumOf<int16_t>(data, count);
    case DataType::kInt32:
      return SumOf<int32_t>(data, count);
    case DataType::kInt64:
      return SumOf<int64_t>(data, count);
    case DataType::kFp32:
      return SumOf<float>(data, count);
    case DataType::kFp64:
      return SumOf<double>(data, count);
    case DataType::kFp16:
    case DataType::kBf16:
      return SumOfHalves(data, count, type);
    case DataType::kBytes:
    case DataType::kInvalid:
      break;
  }
  return 0;
}

}  // namespace

base::Result<std::vector<double>> RowSums(const tensor::Tensor& tensor, size_t rows) {
  STOKER_RETURN_IF_ERROR(CheckBytes("input", tensor));
  STOKER_ASSIGN_OR_RETURN(const int64_t total, tensor.shape.ElementCount());
  if (rows == 0 || total % static_cast<int64_t>(rows) != 0) {
    return base::InvalidArgument(base::StrCat("cannot divide a tensor of shape ", tensor.shape.ToString(),
                                              " into ", rows, " equal rows"));
  }
  const size_t per_row = static_cast<size_t>(total) / rows;
  std::vector<double> sums(rows, 0.0);
  if (tensor.type == DataType::kBytes) {
    tensor::BytesReader reader(tensor.bytes.span());
    std::string_view element;
    for (size_t i = 0; reader.Next(&element); ++i) {
      for (const char c : element) sums[i / per_row] += static_cast<uint8_t>(c);
    }
    return sums;
  }
  const size_t stride = per_row * tensor::ElementSize(tensor.type);
  for (size_t row = 0; row < rows; ++row) {
    sums[row] = SumOfElements(tensor.type, tensor.bytes.data() + row * stride, per_row);
  }
  return sums;
}

}  // namespace stoker::engines::internal
