#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <stoker/base/status.h>
#include <stoker/host/model_config.h>
#include <stoker/tensor/tensor.h>

#include "batch_runner.h"
#include "io_plan.h"

namespace stoker::host {

/// A warm-up ready to run: one request's tensors, the batch dimension of 1 included where there is one.
struct WarmupSample {
  std::string name;
  uint32_t requests = 1;  // in the batch
  uint32_t rounds = 1;
  std::vector<std::string> input_names;
  std::vector<tensor::Tensor> inputs;
};

/// Makes the tensors that `config.warmups` describe; files come from `folder`/warmup/.
base::Result<std::vector<WarmupSample>> MakeWarmups(const ModelConfig& config, const std::string& folder);

/// Runs every sample on an instance that nobody else uses yet.
base::Status RunWarmups(const IoPlan& plan, const std::vector<WarmupSample>& samples, BatchRunner* runner);

}  // namespace stoker::host
