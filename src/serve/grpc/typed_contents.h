#pragma once

#include <string_view>

#include <stoker/base/bytes.h>
#include <stoker/base/status.h>
#include <stoker/tensor/tensor.h>

namespace stoker::serve {

/// What the messages of typed contents name.
struct ContentsOwner {
  std::string_view input, model;
};

/// Converts InferTensorContents to tensor memory for `type`. Exactly the field of that type may hold
/// values; FP16 and BF16 have none. kInvalidArgument for another field and for integers that their
/// type cannot hold, kInternal when `contents` is no such message, kResourceExhausted beyond 2 GiB.
base::Result<base::Bytes> ConvertContents(const ContentsOwner& owner, tensor::DataType type,
                                          std::string_view contents);

}  // namespace stoker::serve
