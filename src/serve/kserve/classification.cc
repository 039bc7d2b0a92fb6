#include "kserve/classification.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <span>

#include <stoker/base/str_cat.h>

namespace stoker::serve {
namespace {

using tensor::DataType;

template <typename T>
bool Before(const std::vector<T>& values, uint32_t a, uint32_t b) {
  if constexpr (std::is_floating_point_v<T>) {
    const bool nan_a = std::isnan(values[a]);
    const bool nan_b = std::isnan(values[b]);
    if (nan_a != nan_b) return nan_b;
    if (nan_a) return a < b;
  }
  return values[a] != values[b] ? values[a] > values[b] : a < b;
}

template <typename T>
void AppendValue(std::string* out, T value) {
  if constexpr (std::is_floating_point_v<T>) {
    char text[400];  // %f of the largest double has 309 digits before the point
    const int size = std::snprintf(text, sizeof(text), "%f", static_cast<double>(value));
    out->append(text, static_cast<size_t>(size));
  } else {
    base::StrAppend(out, static_cast<std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>(value));
  }
}

template <typename T>
void ClassifyRow(std::span<const std::byte> row, size_t classes, const std::vector<std::string>& labels,
                 std::string* out) {
  std::vector<T> values(row.size() / sizeof(T));
  std::memcpy(values.data(), row.data(), values.size() * sizeof(T));
  std::vector<uint32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::partial_sort(order.begin(), order.begin() + static_cast<ptrdiff_t>(classes), order.end(),
                    [&values](uint32_t a, uint32_t b) { return Before(values, a, b); });
  std::string entry;
  for (size_t i = 0; i < classes; ++i) {
    entry.clear();
    AppendValue(&entry, values[order[i]]);
    base::StrAppend(&entry, ":", order[i]);
    if (order[i] < labels.size() && !labels[order[i]].empty()) base::StrAppend(&entry, ":", labels[order[i]]);
    tensor::AppendBytesElement(out, entry);
  }
}

using RowFunction = void (*)(std::span<const std::byte>, size_t, const std::vector<std::string>&,
                             std::string*);

RowFunction FunctionFor(DataType type) {
  switch (type) {
    case DataType::kUint8:
      return ClassifyRow<uint8_t>;
    case DataType::kUint16:
      return ClassifyRow<uint16_t>;
    case DataType::kUint32:
      return ClassifyRow<uint32_t>;
    case DataType::kUint64:
      return ClassifyRow<uint64_t>;
    case DataType::kInt8:
      return ClassifyRow<int8_t>;
    case DataType::kInt16:
      return ClassifyRow<int16_t>;
    case DataType::kInt32:
      return ClassifyRow<int32_t>;
    case DataType::kInt64:
      return ClassifyRow<int64_t>;
    case DataType::kFp32:
      return ClassifyRow<float>;
    case DataType::kFp64:
      return ClassifyRow<double>;
    default:
      return nullptr;
  }
}

}  // namespace

base::Result<tensor::Tensor> Classify(const tensor::Tensor& output, const std::vector<std::string>& labels,
                                      const ClassificationRequest& request) {
  const RowFunction classify_row = FunctionFor(output.type);
  if (classify_row == nullptr) {
    return base::InvalidArgument(
        base::StrCat("class result not available for output '", request.output, "' due to unsupported type '",
                     tensor::ProtocolName(output.type), "'; numbers of 8 to 64 bits can be classified"));
  }
  STOKER_ASSIGN_OR_RETURN(const int64_t elements, output.shape.ElementCount());
  if (static_cast<uint64_t>(elements) > request.elements_max) {
    return base::InvalidArgument(base::StrCat("class result not available for output '", request.output,
                                              "': ", elements, " elements, at most ", request.elements_max,
                                              " can be classified"));
  }
  const int64_t rows = request.batched && output.shape.rank() > 0 ? output.shape[0] : 1;
  const size_t row_elements = rows == 0 ? 0 : static_cast<size_t>(elements / rows);
  const size_t row_bytes = row_elements * tensor::ElementSize(output.type);
  const auto classes = static_cast<size_t>(std::min<uint64_t>(request.classes, row_elements));

  std::string data;
  for (int64_t row = 0; row < rows; ++row) {
    classify_row(output.bytes.span().subspan(static_cast<size_t>(row) * row_bytes, row_bytes), classes,
                 labels, &data);
  }
  tensor::Tensor out;
  out.type = DataType::kBytes;
  if (request.batched) out.shape.Append(rows);
  out.shape.Append(static_cast<int64_t>(classes));
  out.bytes = base::Bytes::Own(std::move(data));
  return out;
}

}  // namespace stoker::serve
