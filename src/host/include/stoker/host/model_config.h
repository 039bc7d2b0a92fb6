#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <stoker/tensor/tensor.h>

namespace stoker::host {

struct IoConfig {
  std::string name;
  tensor::DataType type = tensor::DataType::kInvalid;
  tensor::Shape dims;
  bool has_reshape = false;
  tensor::Shape reshape;
  bool optional = false;
  bool allow_ragged_batch = false;
  std::string label_filename;  // outputs only
};

struct BatchInputConfig {
  enum class Kind : uint8_t {
    kElementCount,
    kAccumulatedElementCount,
    kAccumulatedElementCountWithZero,
    kMaxElementCountAsShape,
    kItemShape,
    kItemShapeFlatten
  };
  Kind kind = Kind::kElementCount;
  std::vector<std::string> target_names;
  tensor::DataType type = tensor::DataType::kInvalid;  // INT32 or FP32
  std::vector<std::string> source_inputs;
};

struct BatchOutputConfig {  // BATCH_SCATTER_WITH_INPUT_SHAPE
  std::vector<std::string> target_names;
  std::vector<std::string> source_inputs;
};

struct QueuePolicyConfig {
  bool delay_on_timeout = false;
  uint64_t default_timeout_us = 0;
  bool allow_timeout_override = false;
  uint32_t max_queue_size = 0;
};

struct DynamicBatchingConfig {
  std::vector<int64_t> preferred_batch_sizes;
  bool sizes_by_default = false;  // none were configured: {max_batch_size} stands for them
  uint64_t max_queue_delay_us = 0;
  bool preserve_ordering = false;
  uint64_t priority_levels = 0;
  uint64_t default_priority_level = 0;
  QueuePolicyConfig default_policy;
  std::map<uint64_t, QueuePolicyConfig> level_policies;
};

struct VersionPolicyConfig {
  enum class Kind : uint8_t { kLatest, kAll, kSpecific };
  Kind kind = Kind::kLatest;
  uint32_t latest = 1;
  std::vector<int64_t> specific;
};

struct WarmupConfig {
  struct Input {
    std::string name;
    tensor::DataType type = tensor::DataType::kInvalid;
    tensor::Shape dims;
    enum class Data : uint8_t { kZero, kRandom, kFile } data = Data::kZero;
    std::string file;
  };
  std::string name;
  uint32_t batch_size = 0;
  uint32_t count = 0;
  std::vector<Input> inputs;
};

/// A model's configuration as plain, validated values: what config.pbtxt, its JSON form and
/// auto-completion come to. Fields whose feature does not exist yet have refused the model before
/// it gets here.
struct ModelConfig {
  std::string name, backend, platform, default_model_filename;
  int64_t max_batch_size = 0;
  VersionPolicyConfig version_policy;
  std::vector<IoConfig> inputs, outputs;
  std::vector<BatchInputConfig> batch_inputs;
  std::vector<BatchOutputConfig> batch_outputs;
  bool has_dynamic_batching = false;
  DynamicBatchingConfig dynamic_batching;
  int instance_count = 0;  // sum over groups; 0: the engine advises
  std::map<std::string, std::string> parameters;
  std::map<std::string, std::string> metric_tags;
  std::vector<WarmupConfig> warmups;
  std::vector<std::string> warnings;  // hints without effect here, one line each
  std::string json, message;          // the full normalised ModelConfig: JSON and serialised protobuf
};

}  // namespace stoker::host
