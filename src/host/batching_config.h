#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include <stoker/base/status.h>
#include <stoker/batching/dynamic.h>
#include <stoker/host/model_config.h>

namespace stoker::host {

/// The batcher's settings of a model, from its configuration and its parameters "stoker.…":
///   stoker.look_past_shapes      true (default) or false
///   stoker.start_before_timeout  true (default) or false
///   stoker.ageing_limit_ms       against starving under strict priorities; 0: never (default 10000)
/// kInvalidArgument tells what is wrong.
base::Result<batching::DynamicConfig> MakeDynamicConfig(const ModelConfig& config, size_t queue_rows_max);
/// The names of those parameters.
std::span<const std::string_view> BatchingParameters();

}  // namespace stoker::host
