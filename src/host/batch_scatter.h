#pragma once

#include <span>
#include <vector>

#include <stoker/tensor/tensor.h>

#include "batch_gather.h"
#include "io_plan.h"

namespace stoker::host {

/// Deals the outputs of a run out to the responses of `items`, as slices that share the run's memory.
/// `outputs` by output index (kInvalid type: not given), `inputs` as the engine saw them. A fault of
/// one output fails only the requests that asked for it.
void ScatterOutputs(const IoPlan& plan, std::span<const tensor::Tensor> inputs,
                    std::vector<tensor::Tensor>* outputs, std::span<BatchItem> items);

}  // namespace stoker::host
