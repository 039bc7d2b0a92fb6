#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include <stoker/base/clock.h>
#include <stoker/base/mutex.h>
#include <stoker/base/status.h>
#include <stoker/batching/dynamic.h>
#include <stoker/batching/release_order.h>

#include "batch_runner.h"
#include "inline_choice.h"
#include "io_plan.h"
#include "pending_request.h"
#include "request_counts.h"
#include "shape_keys.h"
#include "timer.h"
#include "version_statistics.h"

namespace stoker::host {

struct SchedulerOptions {
  std::string name;  // of the threads and in messages
  const IoPlan* plan = nullptr;
  VersionStatistics* statistics = nullptr;
  RequestCounts* counts = nullptr;
  base::Clock* clock = nullptr;
  Timer* timer = nullptr;
  InlineChoice* inline_choice = nullptr;  // told of run times; may be null
};

/// The waiting requests of one model version and the threads that run them, one an instance. Batches
/// are formed by a DynamicBatcher: by the thread that submits when an instance is idle, by the
/// instance's own thread when it comes free, by the timer when a delay ends or a request expires.
/// Each instance thread is woken only with work in hand.
///
/// Thread-safe. One mutex guards everything; sinks and engines are called without it.
class Scheduler final : private Timer::Client {
 public:
  static base::Result<std::unique_ptr<Scheduler>> Make(const SchedulerOptions& options,
                                                       batching::DynamicConfig config);
  ~Scheduler() override;

  /// Queues a request or answers it with the reason why not. Never blocks.
  void Submit(std::unique_ptr<PendingRequest> pending);
  /// Requests that wait, as of a moment ago.
  size_t queued() const { return queued_.load(std::memory_order_acquire); }
  bool preserves_order() const { return preserve_order_; }

  /// Brings one more instance into use, or takes the last out (when it has finished its batch; waits).
  void AddInstance(std::unique_ptr<BatchRunner> runner);
  void RemoveInstance();
  size_t instances() const;

  /// Refuses newcomers, answers all that wait or run with `status`; what an engine still computes is dropped.
  void AnswerAll(const base::Status& status);
  /// Ends the threads; false when one is still inside its engine at `deadline_ns`: then this object
  /// must never be freed.
  bool Stop(int64_t deadline_ns);

 private:
  struct Worker;
  struct Effects;

  Scheduler(const SchedulerOptions& options, batching::DynamicBatcher batcher);

  void OnTimer() override;
  void InstallHook(PendingRequest* pending);
  void OnCancel(PendingRequest* pending);

  base::Status Admit(PendingRequest* pending, std::string signature, int64_t now_ns) REQUIRES(mutex_);
  void Dispatch(int64_t now_ns, Effects* effects) REQUIRES(mutex_);
  void TakeDrops(Effects* effects) REQUIRES(mutex_);
  void Assign(Worker* worker) REQUIRES(mutex_);
  void LeaveQueue(PendingRequest* pending, PendingState state) REQUIRES(mutex_);
  void Abandon(PendingRequest* pending, Effects* effects) REQUIRES(mutex_);
  void Release(const std::vector<batching::Ticket>& tickets) REQUIRES(mutex_);

  void Work(Worker* worker);
  bool WaitForJob(Worker* worker);
  void RunJob(Worker* worker);
  void TakeNext(Worker* worker);
  void Complete(std::unique_ptr<PendingRequest> pending, InferResponse response);
  void SendReleased();
  void Carry(Effects* effects);
  void Answer(PendingRequest* pending, InferResponse response, FailureReason reason);

  const SchedulerOptions options_;
  const bool preserve_order_;
  const bool keyed_;  // shapes decide who may share a batch

  mutable base::Mutex mutex_;
  base::CondVar worker_ended_;
  batching::DynamicBatcher batcher_ GUARDED_BY(mutex_);
  batching::Decision decision_ GUARDED_BY(mutex_);
  batching::ReleaseOrder order_ GUARDED_BY(mutex_);
  ShapeKeys keys_ GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Worker>> workers_ GUARDED_BY(mutex_);
  // Those taken out of use: a late wake-up may still touch one, so none is freed before the end.
  std::vector<std::unique_ptr<Worker>> retired_ GUARDED_BY(mutex_);
  std::vector<Worker*> idle_ GUARDED_BY(mutex_);  // the last to become idle is the first to work
  std::unordered_set<PendingRequest*> held_ GUARDED_BY(mutex_);  // finished, behind one that is not
  std::vector<std::unique_ptr<PendingRequest>> outbox_ GUARDED_BY(mutex_);  // in order, to be sent
  bool sending_ GUARDED_BY(mutex_) = false;
  bool closed_ GUARDED_BY(mutex_) = false;
  size_t live_workers_ GUARDED_BY(mutex_) = 0;
  base::Status closed_status_ GUARDED_BY(mutex_);
  std::atomic<size_t> queued_{0};
};

}  // namespace stoker::host
