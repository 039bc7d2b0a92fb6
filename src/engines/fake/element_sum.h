#pragma once

#include <cstddef>
#include <vector>

#include <stoker/base/status.h>
#include <stoker/tensor/tensor.h>

namespace stoker::engines::internal {

/// The sum of each of `rows` equal parts of a tensor's elements as doubles. kBytes elements count as
/// the sum of their bytes. kInvalidArgument when the bytes do not fit type and shape.
base::Result<std::vector<double>> RowSums(const tensor::Tensor& tensor, size_t rows);

}  // namespace stoker::engines::internal
