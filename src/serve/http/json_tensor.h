#pragma once

#include <string>

#include <stoker/base/json.h>
#include <stoker/base/status.h>
#include <stoker/tensor/tensor.h>

namespace stoker::serve {

/// Reads the `data` array at the reader's cursor into memory for `type` and `shape`. Allocates no
/// more than the `text_bytes` of JSON that are left can fill. Errors are kInternal ("Unable to parse
/// 'data': …"), as Triton's clients know them; values beyond an integer type are kInvalidArgument.
base::Result<base::Bytes> ReadJsonTensor(base::JsonReader* reader, size_t text_bytes, tensor::DataType type,
                                         const tensor::Shape& shape);

/// Appends the flat `data` array of a tensor. kInvalidArgument for FP16 and BF16, which have no JSON
/// form. BYTES elements that are not UTF-8 are written with U+FFFD in their place.
base::Status WriteJsonTensor(std::string_view output, const tensor::Tensor& tensor, base::JsonWriter* json);

}  // namespace stoker::serve
