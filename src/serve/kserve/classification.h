#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <stoker/base/status.h>
#include <stoker/tensor/tensor.h>

namespace stoker::serve {

struct ClassificationRequest {
  std::string_view output;  // for messages
  uint64_t classes = 1;     // how many of the largest
  bool batched = false;     // the first dimension is a batch: classify each row
  size_t elements_max = 1'000'000;
};

/// The classification extension: a BYTES tensor [batch?, min(classes, elements)] of
/// "value:index[:label]", largest value first, equal values in index order. NaN comes last.
/// BOOL, FP16, BF16 and BYTES outputs are kInvalidArgument.
base::Result<tensor::Tensor> Classify(const tensor::Tensor& output, const std::vector<std::string>& labels,
                                      const ClassificationRequest& request);

}  // namespace stoker::serve
