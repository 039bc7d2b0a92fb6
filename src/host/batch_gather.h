#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <stoker/base/status.h>
#include <stoker/host/request.h>
#include <stoker/tensor/tensor.h>

#include "buffer_pool.h"
#include "io_plan.h"
#include "request_check.h"

namespace stoker::host {

/// One request of a batch: what goes in and what comes out.
struct BatchItem {
  InferRequest* request = nullptr;
  const CheckedRequest* checked = nullptr;
  InferResponse response;
};

struct GatherOptions {
  BufferPool* pool = nullptr;
  size_t alignment = 1;  // of input bytes
  bool consume = false;  // the inputs may be moved out of a request that runs alone
};

/// Where one gathered tensor goes.
struct GatherTarget {
  BufferPool* pool = nullptr;
  size_t alignment = 1;
  bool consume = false;
  int64_t rows = 0;  // of the whole batch
  tensor::Tensor* out = nullptr;
};

/// Puts the inputs of `items` together as the engine wants them: the rows one after another, ragged
/// inputs as one dimension, batch inputs behind them. The bytes of a request that runs alone are
/// passed on without a copy unless the alignment asks for one.
base::Status GatherInputs(const IoPlan& plan, std::span<BatchItem> items, const GatherOptions& options,
                          std::vector<tensor::Tensor>* inputs);

}  // namespace stoker::host
