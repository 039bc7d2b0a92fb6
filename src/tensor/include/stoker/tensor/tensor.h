#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <stoker/base/bytes.h>
#include <stoker/base/status.h>
#include <stoker/tensor/data_type.h>
#include <stoker/tensor/shape.h>

namespace stoker::tensor {

/// A dense row-major tensor that shares ownership of its bytes (kBytes: the length-prefixed
/// elements one after another). Copies share data. The bytes may be unaligned.
struct Tensor {
  DataType type = DataType::kInvalid;
  Shape shape;
  base::Bytes bytes;
};

/// Checks that `bytes` is what `type` and `shape` ask for: the exact size, or for kBytes exactly
/// as many whole elements. Messages name the tensor `name`.
base::Status CheckBytes(std::string_view name, const Tensor& tensor);

/// Walks the elements of a kBytes tensor's data.
class BytesReader {
 public:
  explicit BytesReader(std::span<const std::byte> data) : data_(data) {}
  /// The next element, or nothing at the end or when the data is cut short (see ok()).
  bool Next(std::string_view* element);
  bool ok() const { return ok_; }
  size_t consumed() const { return offset_; }

 private:
  std::span<const std::byte> data_;
  size_t offset_ = 0;
  bool ok_ = true;
};

/// Appends one element in the form of kBytes (length, then bytes).
void AppendBytesElement(std::string* out, std::string_view element);

}  // namespace stoker::tensor
