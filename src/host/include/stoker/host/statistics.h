#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace stoker::host {

struct DurationStatistic {
  uint64_t count = 0;
  uint64_t ns = 0;
};

struct BatchStatistic {
  uint64_t batch_size = 0;
  DurationStatistic compute_input, compute_infer, compute_output;
};

/// The statistics extension's figures of one model version (names as in the protocol).
struct ModelStatistics {
  std::string name, version;
  uint64_t last_inference_ms = 0;  // Unix epoch
  uint64_t inference_count = 0;
  uint64_t execution_count = 0;
  DurationStatistic success, fail, queue, compute_input, compute_infer, compute_output, cache_hit, cache_miss;
  std::vector<BatchStatistic> batches;  // ascending batch_size
};

}  // namespace stoker::host
