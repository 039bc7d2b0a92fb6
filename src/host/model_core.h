#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <stoker/base/clock.h>
#include <stoker/base/status.h>
#include <stoker/device/lease.h>
#include <stoker/engines/engine.h>
#include <stoker/host/model_config.h>
#include <stoker/host/request.h>
#include <stoker/observe/log.h>
#include <stoker/observe/metrics.h>

#include "batch_runner.h"
#include "buffer_pool.h"
#include "engine_set.h"
#include "inline_choice.h"
#include "io_plan.h"
#include "request_counts.h"
#include "scheduler.h"
#include "timer.h"
#include "version_statistics.h"
#include "warmup.h"

namespace stoker::host {

/// What every loaded version uses and none owns. Outlives them all.
struct Services {
  base::Clock* clock = nullptr;
  observe::Registry* metrics = nullptr;
  observe::Log* log = nullptr;
  Timer* timer = nullptr;
  device::Lease* lease = nullptr;
  RequestCounts* counts = nullptr;
  EngineSet* engines = nullptr;
  int cores = 1;
  size_t queue_rows_max = 0;
  size_t output_bytes_max = 0;
  std::map<std::string, std::map<std::string, std::string>> backend_config;  // backend → key → value
};

/// What a version is made from.
struct CoreParts {
  const ModelConfig* config = nullptr;
  engines::ModelSpec spec;  // tensors are filled in by Load
  std::vector<WarmupSample> warmups;
  std::shared_ptr<VersionStatistics> statistics;  // shared with the version before, across a reload
};

/// When a request was first seen, and the present.
struct Arrived {
  int64_t started_ns = 0;
  int64_t now_ns = 0;
};

/// The working part of a loaded version: engine model, instances, scheduler. Outlives changes of its
/// configuration that only move the number of instances. Thread-safe.
class ModelCore {
 public:
  /// Loads the engine model, makes the instances and warms them up. Takes long.
  static base::Result<std::unique_ptr<ModelCore>> Load(const Services& services, CoreParts parts);
  ~ModelCore();

  /// Checks the request and runs it, here or on an instance's thread. Never blocks.
  void Submit(std::unique_ptr<InferRequest> request, std::unique_ptr<ResponseSink> sink, Arrived arrived);

  /// As many instances as `config` asks for.
  base::Status SetInstances(const ModelConfig& config);
  void AnswerAll(const base::Status& status) { scheduler_->AnswerAll(status); }
  /// Ends the threads; false: one hangs in its engine, and this object must never be freed.
  bool Stop(int64_t deadline_ns) { return scheduler_->Stop(deadline_ns); }

  const IoPlan& plan() const { return plan_; }
  VersionStatistics& statistics() const { return *statistics_; }
  size_t instances() const { return scheduler_->instances(); }
  bool runs_inline() const { return inline_choice_.now(); }
  std::string choices() const { return engine_model_->choices(); }
  const std::string& engine_name() const { return engine_name_; }

 private:
  struct InlineSlot;

  ModelCore(const Services& services, CoreParts* parts, IoPlan plan);
  base::Status Start(const ModelConfig& config, const engines::ModelSpec& spec);
  base::Result<std::unique_ptr<BatchRunner>> NewRunner(int index);
  int InstancesFor(const ModelConfig& config) const;

  bool MayRunInline() const;
  InlineSlot* TakeSlot();
  void RunInline(InlineSlot* slot, BatchItem item, Arrived arrived, InferResponse* response);
  void Refuse(ResponseSink* sink, base::Status status);

  const Services services_;
  const std::shared_ptr<VersionStatistics> statistics_;
  const std::vector<WarmupSample> warmups_;
  const IoPlan plan_;
  BufferPool pool_;
  std::string engine_name_;
  std::unique_ptr<engines::EngineModel> engine_model_;
  engines::InstanceTraits traits_;
  bool inline_capable_ = false;
  std::vector<std::unique_ptr<InlineSlot>> slots_;
  InlineChoice inline_choice_;
  std::unique_ptr<Scheduler> scheduler_;  // last: its threads use everything above
};

}  // namespace stoker::host
