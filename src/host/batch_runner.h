#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <stoker/base/clock.h>
#include <stoker/device/lease.h>
#include <stoker/engines/engine.h>

#include "batch_gather.h"
#include "buffer_pool.h"
#include "io_plan.h"
#include "output_collector.h"

namespace stoker::host {

/// One call (or, for request-wise engines, one round of calls) of an engine.
struct Execution {
  int64_t rows = 0;
  int64_t input_ns = 0;
  int64_t infer_ns = 0;
  int64_t output_ns = 0;
};

struct RunnerOptions {
  const IoPlan* plan = nullptr;
  BufferPool* pool = nullptr;
  base::Clock* clock = nullptr;
  device::Lease* lease = nullptr;
  engines::InstanceTraits traits;
  size_t input_alignment = 1;
  size_t output_bytes_max = 0;
};

/// An engine instance with what a run of it needs: gathers, runs, scatters. Used by one thread at a
/// time; its scratch memory is kept between runs.
class BatchRunner {
 public:
  BatchRunner(std::unique_ptr<engines::EngineInstance> instance, const RunnerOptions& options);

  /// Runs a batch and fills each item's response: status, outputs and the timing of its execution.
  /// When a batch of several fails each is run again alone, so that one bad request fails alone.
  /// `now_ns` is the present. Returns what was executed; valid until the next call.
  std::span<const Execution> Run(std::span<BatchItem> items, int64_t now_ns);
  /// When the last Run ended.
  int64_t ended_ns() const { return now_ns_; }

 private:
  base::Status RunTogether(std::span<BatchItem> items, Execution* execution);
  base::Status RunEngine(std::span<BatchItem> items, int64_t rows);
  void RunOneByOne(std::span<BatchItem> items, bool one_execution);
  void Finish(std::span<BatchItem> items, const base::Status& status, const Execution& execution);

  const std::unique_ptr<engines::EngineInstance> instance_;
  const RunnerOptions options_;
  OutputCollector collector_;
  std::vector<tensor::Tensor> inputs_;
  std::vector<int64_t> request_rows_;
  std::vector<Execution> executions_;
  int64_t now_ns_ = 0;  // the last look at the clock
};

}  // namespace stoker::host
