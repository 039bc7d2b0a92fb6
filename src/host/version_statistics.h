#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <stoker/base/clock.h>
#include <stoker/batching/dynamic.h>
#include <stoker/host/statistics.h>
#include <stoker/observe/metrics.h>

#include "batch_runner.h"

namespace stoker::host {

/// Why a request failed, as nv_inference_request_failure labels it.
enum class FailureReason : uint8_t { kRejected, kCanceled, kBackend, kOther };
inline constexpr size_t kFailureReasonCount = 4;

/// A duration of each step of a request that succeeded.
struct RequestTimes {
  int64_t total_ns = 0;
  RequestTiming steps;
};

struct StatisticsOptions {
  std::string model, version;
  std::map<std::string, std::string> metric_tags;
  int64_t max_batch_size = 0;
  bool latency_counters = true;  // the nv_*_duration_us families
};

/// The exact counts of one model version, and its series in the registry. Shared by the versions that
/// follow each other in reloads without a gap, so that the series go on. Recording is wait-free but for
/// the histograms' sums. Thread-safe.
class VersionStatistics {
 public:
  /// Declares every family of host's; once per registry.
  static void DeclareFamilies(observe::Registry* registry);

  VersionStatistics(const StatisticsOptions& options, base::Clock* clock, observe::Registry* registry);
  ~VersionStatistics();
  VersionStatistics(const VersionStatistics&) = delete;
  VersionStatistics& operator=(const VersionStatistics&) = delete;

  void RecordSuccess(int64_t rows, const RequestTimes& times);
  void RecordFailure(FailureReason reason, int64_t total_ns);
  void RecordExecution(const Execution& execution, int64_t end_ns);
  void RecordClose(batching::CloseReason reason) { closed_[static_cast<size_t>(reason)]->Add(); }
  void AddPending(int64_t requests) { pending_.fetch_add(requests, std::memory_order_relaxed); }
  void SetLoadSeconds(double seconds) { load_seconds_->Set(seconds); }

  /// Everything since the series began.
  ModelStatistics Read() const;

 private:
  enum Cell : size_t {
    kSuccess,
    kSuccessNs,
    kQueueNs,
    kInputNs,
    kInferNs,
    kOutputNs,
    kInferences,
    kExecutions,
    kFailNs,
    kFailures,
    kCells = kFailures + kFailureReasonCount
  };
  struct alignas(64) Shard {
    std::array<std::atomic<uint64_t>, kCells> cells{};
  };
  struct BatchCell {
    std::atomic<uint64_t> count{0}, input_ns{0}, infer_ns{0}, output_ns{0};
  };
  static constexpr size_t kShards = 8;
  static constexpr size_t kBatchSizesMax = 4096;  // distinct ones; larger batches share the last

  Shard& Mine() { return shards_[observe::ThreadShard() % kShards]; }
  uint64_t Sum(size_t cell) const;
  BatchCell& CellFor(int64_t rows);
  void AddSeries(observe::Registry* registry, const observe::Labels& labels, bool latency_counters);

  const StatisticsOptions options_;
  std::array<Shard, kShards> shards_;
  std::vector<std::atomic<BatchCell*>> batches_;  // by batch size, made when first seen
  const int64_t wall_offset_ns_;                  // from the monotonic clock to the Unix epoch
  std::atomic<int64_t> last_inference_ns_{0};     // monotonic; 0: none
  std::atomic<int64_t> pending_{0};
  std::shared_ptr<observe::Histogram> request_seconds_, queue_seconds_, infer_seconds_, batch_rows_;
  std::array<std::shared_ptr<observe::Counter>, batching::kCloseReasonCount> closed_;
  std::shared_ptr<observe::Gauge> load_seconds_;
  std::vector<std::shared_ptr<void>> callbacks_;  // last: dropped before what they read
};

/// `now` without what `before` had: the statistics of a version that took over the series.
ModelStatistics Difference(ModelStatistics now, const ModelStatistics& before);

}  // namespace stoker::host
