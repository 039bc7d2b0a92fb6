#include "version_statistics.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace stoker::host {
namespace {

using observe::Labels;
using observe::MetricType;

constexpr std::string_view kReasons[kFailureReasonCount] = {"REJECTED", "CANCELED", "BACKEND", "OTHER"};

struct Family {
  std::string_view name;
  MetricType type;
  std::string_view help;
};

constexpr std::string_view kSuccessName = "nv_inference_request_success";
constexpr std::string_view kFailureName = "nv_inference_request_failure";
constexpr std::string_view kCountName = "nv_inference_count";
constexpr std::string_view kExecutionsName = "nv_inference_exec_count";
constexpr std::string_view kRequestUs = "nv_inference_request_duration_us";
constexpr std::string_view kQueueUs = "nv_inference_queue_duration_us";
constexpr std::string_view kInputUs = "nv_inference_compute_input_duration_us";
constexpr std::string_view kInferUs = "nv_inference_compute_infer_duration_us";
constexpr std::string_view kOutputUs = "nv_inference_compute_output_duration_us";
constexpr std::string_view kPendingName = "nv_inference_pending_request_count";
constexpr std::string_view kLoadName = "nv_model_load_duration_secs";
constexpr std::string_view kRequestSeconds = "stoker_request_duration_seconds";
constexpr std::string_view kQueueSeconds = "stoker_queue_duration_seconds";
constexpr std::string_view kInferSeconds = "stoker_infer_duration_seconds";
constexpr std::string_view kBatchRows = "stoker_batch_rows";
constexpr std::string_view kBatchClosed = "stoker_batch_closed_total";

constexpr Family kFamilies[] = {
    {kSuccessName, MetricType::kCounter, "Number of successful inference requests, all batch sizes"},
    {kFailureName, MetricType::kCounter, "Number of failed inference requests, all batch sizes"},
    {kCountName, MetricType::kCounter, "Number of inferences performed (does not include cached requests)"},
    {kExecutionsName, MetricType::kCounter,
     "Number of model executions performed (does not include cached requests)"},
    {kRequestUs, MetricType::kCounter, "Cumulative inference request duration in microseconds"},
    {kQueueUs, MetricType::kCounter, "Cumulative inference queuing duration in microseconds"},
    {kInputUs, MetricType::kCounter, "Cumulative compute input duration in microseconds"},
    {kInferUs, MetricType::kCounter, "Cumulative compute inference duration in microseconds"},
    {kOutputUs, MetricType::kCounter, "Cumulative inference compute output duration in microseconds"},
    {kPendingName, MetricType::kGauge, "Number of requests that wait to be run, per model"},
    {kLoadName, MetricType::kGauge, "Model load time in seconds"},
    {kRequestSeconds, MetricType::kHistogram, "Seconds from a request's arrival to its answer"},
    {kQueueSeconds, MetricType::kHistogram, "Seconds that a request waited for its run"},
    {kInferSeconds, MetricType::kHistogram, "Seconds that an execution took in the engine"},
    {kBatchRows, MetricType::kHistogram, "Rows of each execution"},
    {kBatchClosed, MetricType::kCounter, "Batches by what closed them"},
};

std::vector<double> SecondBounds() { return observe::Histogram::Exponential(16e-6, 2, 22); }

double Seconds(int64_t ns) { return static_cast<double>(ns) * 1e-9; }

uint64_t Positive(int64_t ns) { return ns > 0 ? static_cast<uint64_t>(ns) : 0; }

void Bump(std::atomic<uint64_t>& cell, uint64_t amount) { cell.fetch_add(amount, std::memory_order_relaxed); }

Labels With(Labels labels, std::string name, std::string_view value) {
  labels.emplace_back(std::move(name), std::string(value));
  return labels;
}

DurationStatistic Minus(const DurationStatistic& a, const DurationStatistic& b) {
  return {a.count - b.count, a.ns - b.ns};
}

}  // namespace

void VersionStatistics::DeclareFamilies(observe::Registry* registry) {
  for (const Family& family : kFamilies) registry->Declare(family.name, family.type, family.help);
}

VersionStatistics::VersionStatistics(const StatisticsOptions& options, base::Clock* clock,
                                     observe::Registry* registry)
    : options_(options),
      batches_(std::min<size_t>(static_cast<size_t>(std::max<int64_t>(options.max_batch_size, 0)),
                                kBatchSizesMax) +
               1),
      wall_offset_ns_(clock->WallNs() - clock->NowNs()) {
  Labels labels = {{"model", options.model}, {"version", options.version}};
  for (const auto& [name, value] : options.metric_tags) labels.emplace_back("_" + name, value);
  AddSeries(registry, labels, options.latency_counters);
}

VersionStatistics::~VersionStatistics() {
  callbacks_.clear();
  for (auto& cell : batches_) delete cell.load();
}

void VersionStatistics::AddSeries(observe::Registry* registry, const Labels& labels, bool latency_counters) {
  const auto read = [&](std::string_view family, const Labels& with, size_t cell, double divisor) {
    callbacks_.push_back(registry->AddCallback(family, with, [this, cell, divisor] {
      return static_cast<double>(static_cast<uint64_t>(static_cast<double>(Sum(cell)) / divisor));
    }));
  };
  read(kSuccessName, labels, kSuccess, 1);
  for (size_t i = 0; i < kFailureReasonCount; ++i)
    read(kFailureName, With(labels, "reason", kReasons[i]), kFailures + i, 1);
  read(kCountName, labels, kInferences, 1);
  read(kExecutionsName, labels, kExecutions, 1);
  if (latency_counters) {
    read(kRequestUs, labels, kSuccessNs, 1000);
    read(kQueueUs, labels, kQueueNs, 1000);
    read(kInputUs, labels, kInputNs, 1000);
    read(kInferUs, labels, kInferNs, 1000);
    read(kOutputUs, labels, kOutputNs, 1000);
  }
  callbacks_.push_back(registry->AddCallback(kPendingName, labels, [this] {
    return static_cast<double>(std::max<int64_t>(0, pending_.load(std::memory_order_relaxed)));
  }));
  load_seconds_ = registry->AddGauge(kLoadName, labels);
  request_seconds_ = registry->AddHistogram(kRequestSeconds, labels, SecondBounds());
  queue_seconds_ = registry->AddHistogram(kQueueSeconds, labels, SecondBounds());
  infer_seconds_ = registry->AddHistogram(kInferSeconds, labels, SecondBounds());
  batch_rows_ = registry->AddHistogram(kBatchRows, labels, observe::Histogram::Exponential(1, 2, 12));
  for (size_t i = 0; i < closed_.size(); ++i) {
    const char* reason = batching::CloseReasonName(static_cast<batching::CloseReason>(i));
    closed_[i] = registry->AddCounter(kBatchClosed, With(labels, "reason", reason));
  }
}

uint64_t VersionStatistics::Sum(size_t cell) const {
  uint64_t sum = 0;
  for (const Shard& shard : shards_) sum += shard.cells[cell].load(std::memory_order_relaxed);
  return sum;
}

VersionStatistics::BatchCell& VersionStatistics::CellFor(int64_t rows) {
  auto& slot = batches_[std::min(static_cast<size_t>(std::max<int64_t>(rows, 0)), batches_.size() - 1)];
  BatchCell* cell = slot.load(std::memory_order_acquire);
  if (cell != nullptr) return *cell;
  auto made = std::make_unique<BatchCell>();
  if (slot.compare_exchange_strong(cell, made.get(), std::memory_order_acq_rel)) return *made.release();
  return *cell;
}

void VersionStatistics::RecordSuccess(int64_t rows, const RequestTimes& times) {
  auto& cells = Mine().cells;
  Bump(cells[kSuccess], 1);
  Bump(cells[kSuccessNs], Positive(times.total_ns));
  Bump(cells[kQueueNs], Positive(times.steps.queue_ns));
  Bump(cells[kInputNs], Positive(times.steps.input_ns));
  Bump(cells[kInferNs], Positive(times.steps.infer_ns));
  Bump(cells[kOutputNs], Positive(times.steps.output_ns));
  Bump(cells[kInferences], static_cast<uint64_t>(rows));
  request_seconds_->Observe(Seconds(times.total_ns));
  queue_seconds_->Observe(Seconds(times.steps.queue_ns));
}

void VersionStatistics::RecordFailure(FailureReason reason, int64_t total_ns) {
  auto& cells = Mine().cells;
  Bump(cells[kFailures + static_cast<size_t>(reason)], 1);
  Bump(cells[kFailNs], Positive(total_ns));
}

void VersionStatistics::RecordExecution(const Execution& execution, int64_t end_ns) {
  Bump(Mine().cells[kExecutions], 1);
  // Without a batch dimension batch_stats has one entry of size 0, as in Triton.
  BatchCell& cell = CellFor(options_.max_batch_size > 0 ? execution.rows : 0);
  Bump(cell.count, 1);
  Bump(cell.input_ns, Positive(execution.input_ns));
  Bump(cell.infer_ns, Positive(execution.infer_ns));
  Bump(cell.output_ns, Positive(execution.output_ns));
  infer_seconds_->Observe(Seconds(execution.infer_ns));
  batch_rows_->Observe(static_cast<double>(execution.rows));
  int64_t last = last_inference_ns_.load(std::memory_order_relaxed);
  // Now and then is enough: the figure is in milliseconds.
  while (last + base::kNsPerMs / 2 <= end_ns &&
         !last_inference_ns_.compare_exchange_weak(last, end_ns, std::memory_order_relaxed)) {
  }
}

ModelStatistics VersionStatistics::Read() const {
  ModelStatistics out;
  out.name = options_.model;
  out.version = options_.version;
  const int64_t last = last_inference_ns_.load(std::memory_order_relaxed);
  if (last != 0) out.last_inference_ms = static_cast<uint64_t>((last + wall_offset_ns_) / base::kNsPerMs);
  out.inference_count = Sum(kInferences);
  out.execution_count = Sum(kExecutions);
  const uint64_t successes = Sum(kSuccess);
  out.success = {successes, Sum(kSuccessNs)};
  out.queue = {successes, Sum(kQueueNs)};
  out.compute_input = {successes, Sum(kInputNs)};
  out.compute_infer = {successes, Sum(kInferNs)};
  out.compute_output = {successes, Sum(kOutputNs)};
  for (size_t i = 0; i < kFailureReasonCount; ++i) out.fail.count += Sum(kFailures + i);
  out.fail.ns = Sum(kFailNs);
  for (size_t size = 0; size < batches_.size(); ++size) {
    const BatchCell* cell = batches_[size].load(std::memory_order_acquire);
    if (cell == nullptr) continue;
    const uint64_t count = cell->count.load(std::memory_order_relaxed);
    out.batches.push_back({size,
                           {count, cell->input_ns.load(std::memory_order_relaxed)},
                           {count, cell->infer_ns.load(std::memory_order_relaxed)},
                           {count, cell->output_ns.load(std::memory_order_relaxed)}});
  }
  return out;
}

ModelStatistics Difference(ModelStatistics now, const ModelStatistics& before) {
  if (now.execution_count == before.execution_count) now.last_inference_ms = 0;
  now.inference_count -= before.inference_count;
  now.execution_count -= before.execution_count;
  for (const auto member :
       {&ModelStatistics::success, &ModelStatistics::fail, &ModelStatistics::queue,
        &ModelStatistics::compute_input, &ModelStatistics::compute_infer, &ModelStatistics::compute_output,
        &ModelStatistics::cache_hit, &ModelStatistics::cache_miss}) {
    now.*member = Minus(now.*member, before.*member);
  }
  std::vector<BatchStatistic> batches;
  for (const BatchStatistic& batch : now.batches) {
    const auto same = std::find_if(before.batches.begin(), before.batches.end(),
                                   [&](const BatchStatistic& b) { return b.batch_size == batch.batch_size; });
    BatchStatistic rest = batch;
    if (same != before.batches.end()) {
      rest.compute_input = Minus(rest.compute_input, same->compute_input);
      rest.compute_infer = Minus(rest.compute_infer, same->compute_infer);
      rest.compute_output = Minus(rest.compute_output, same->compute_output);
    }
    if (rest.compute_infer.count > 0) batches.push_back(rest);
  }
  now.batches = std::move(batches);
  return now;
}

}  // namespace stoker::host
