#include "description_internal.h"

#include <stoker/base/str_cat.h>

#include "parameters_internal.h"

namespace stoker::engines::internal {
namespace {

std::vector<TensorSpec> FullShapes(const ModelSpec& spec, std::vector<TensorSpec> tensors) {
  if (spec.max_batch_size == 0) return tensors;
  for (TensorSpec& tensor : tensors) tensor.dims = tensor.dims.WithLeading(-1);
  return tensors;
}

}  // namespace

base::Result<ModelDescription> DescribeFromSpec(const ModelSpec& spec) {
  if (spec.inputs.empty() || spec.outputs.empty()) {
    return base::FailedPrecondition(base::StrCat(ModelLabel(spec), ": backend '", spec.backend,
                                                 "' has no model file to read inputs and outputs from; list "
                                                 "them as input [...] and output [...] in config.pbtxt"));
  }
  ModelDescription description;
  description.inputs = FullShapes(spec, spec.inputs);
  description.outputs = FullShapes(spec, spec.outputs);
  description.batchable = spec.max_batch_size > 0;
  return description;
}

}  // namespace stoker::engines::internal
