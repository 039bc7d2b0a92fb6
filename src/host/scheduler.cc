#include "scheduler.h"

#include <algorithm>
#include <span>

#include <stoker/base/str_cat.h>
#include <stoker/base/thread.h>

namespace stoker::host {
namespace {

using batching::Ticket;

// Tickets are the requests' addresses: unique among those that live, and no table is needed.
Ticket TicketOf(const PendingRequest* pending) { return reinterpret_cast<Ticket>(pending); }
PendingRequest* RequestOf(Ticket ticket) { return reinterpret_cast<PendingRequest*>(ticket); }

FailureReason ReasonOf(const base::Status& status) {
  return status.code() == base::StatusCode::kCancelled ? FailureReason::kCanceled : FailureReason::kBackend;
}

}  // namespace

struct Scheduler::Worker {
  std::unique_ptr<BatchRunner> runner;
  std::vector<std::unique_ptr<PendingRequest>>
      job;  // changed under the mutex, read by the worker while it runs
  std::vector<BatchItem> items;
  bool has_job = false;  // guarded by the scheduler's mutex, as is what follows
  bool leaving = false;
  bool ended = false;
  base::CondVar wake;
  base::Thread thread;
};

/// What a decision asks for once the mutex is free.
struct Scheduler::Effects {
  struct Refusal {
    std::unique_ptr<PendingRequest> pending;
    base::Status status;
    FailureReason reason = FailureReason::kRejected;
  };
  std::vector<Refusal> refusals;
  std::vector<Worker*> wake;
  bool released = false;
};

base::Result<std::unique_ptr<Scheduler>> Scheduler::Make(const SchedulerOptions& options,
                                                         batching::DynamicConfig config) {
  STOKER_ASSIGN_OR_RETURN(auto batcher, batching::DynamicBatcher::Make(std::move(config)));
  return std::unique_ptr<Scheduler>(new Scheduler(options, std::move(batcher)));
}

Scheduler::Scheduler(const SchedulerOptions& options, batching::DynamicBatcher batcher)
    : options_(options),
      preserve_order_(batcher.config().preserve_ordering),
      keyed_(batcher.config().batching && batcher.config().max_batch_size > 0 && options.plan->shapes_vary),
      batcher_(std::move(batcher)) {}

Scheduler::~Scheduler() { options_.timer->Remove(this); }

void Scheduler::Submit(std::unique_ptr<PendingRequest> owned) {
  PendingRequest* const pending = owned.get();
  // Whoever answers the request may drop the last pin on this version; it must outlast the calls below.
  const ModelRef pin = pending->request().model;
  std::string signature;
  if (keyed_) AppendShapeSignature(*options_.plan, pending->request(), pending->checked.wanted, &signature);
  InstallHook(pending);
  Effects effects;
  {
    base::MutexLock lock(&mutex_);
    const int64_t now = options_.clock->NowNs();
    base::Status admitted = Admit(pending, std::move(signature), now);
    const auto& cancellation = pending->request().cancellation;
    if (!admitted.ok()) {
      pending->state = PendingState::kLeaving;
      effects.refusals.push_back({std::move(owned), std::move(admitted)});
    } else if (owned.release();
               cancellation != nullptr && cancellation->cancelled() && batcher_.Cancel(TicketOf(pending))) {
      LeaveQueue(pending, PendingState::kLeaving);
      Abandon(pending, &effects);
      effects.refusals.push_back({std::unique_ptr<PendingRequest>(pending),
                                  base::Cancelled("the client cancelled the request"),
                                  FailureReason::kCanceled});
    } else {
      Dispatch(now, &effects);
    }
  }
  Carry(&effects);
}

base::Status Scheduler::Admit(PendingRequest* pending, std::string signature, int64_t now_ns) {
  if (closed_) return closed_status_;
  if (keyed_) pending->shape_key = keys_.Acquire(std::move(signature));
  const InferRequest& request = pending->request();
  const auto timeout_us = std::min<uint64_t>(request.timeout_us, INT64_MAX / base::kNsPerUs);
  base::Status status = batcher_.Enqueue({.ticket = TicketOf(pending),
                                          .rows = pending->checked.rows,
                                          .shape_key = pending->shape_key,
                                          .priority = request.priority,
                                          .timeout_ns = static_cast<int64_t>(timeout_us) * base::kNsPerUs,
                                          .deadline_ns = request.deadline_ns},
                                         now_ns);
  if (!status.ok()) {
    if (keyed_) keys_.Release(pending->shape_key);
    return status;
  }
  pending->queued_ns = now_ns;
  pending->state = PendingState::kQueued;
  if (preserve_order_) pending->position = order_.Admit(TicketOf(pending));
  queued_.fetch_add(1, std::memory_order_release);
  options_.statistics->AddPending(1);
  return status;
}

void Scheduler::LeaveQueue(PendingRequest* pending, PendingState state) {
  pending->state = state;
  if (keyed_) keys_.Release(pending->shape_key);
  queued_.fetch_sub(1, std::memory_order_release);
  options_.statistics->AddPending(-1);
}

// Takes a request that never ran out of the line of answers.
void Scheduler::Abandon(PendingRequest* pending, Effects* effects) {
  if (!preserve_order_) return;
  std::vector<Ticket> released;
  order_.Abandon(pending->position, &released);
  Release(released);
  effects->released = true;
}

void Scheduler::Release(const std::vector<Ticket>& tickets) {
  for (const Ticket ticket : tickets) {
    held_.erase(RequestOf(ticket));
    outbox_.emplace_back(RequestOf(ticket));
  }
}

// Gives every idle instance a batch as long as there are batches to run.
void Scheduler::Dispatch(int64_t now_ns, Effects* effects) {
  while (!idle_.empty()) {
    batcher_.Next(now_ns, &decision_);
    TakeDrops(effects);
    if (!decision_.has_plan()) break;
    Worker* worker = idle_.back();
    idle_.pop_back();
    Assign(worker);
    effects->wake.push_back(worker);
  }
  if (idle_.empty()) {
    batcher_.Poll(now_ns, &decision_);
    TakeDrops(effects);
  }
  options_.timer->Arm(this, decision_.wake_at_ns);
}

void Scheduler::TakeDrops(Effects* effects) {
  for (const batching::Drop& drop : decision_.drops) {
    PendingRequest* pending = RequestOf(drop.ticket);
    LeaveQueue(pending, PendingState::kLeaving);
    Abandon(pending, effects);
    effects->refusals.push_back({std::unique_ptr<PendingRequest>(pending), batching::DropStatus(drop)});
  }
}

void Scheduler::Assign(Worker* worker) {
  for (const Ticket ticket : decision_.plan.tickets) {
    PendingRequest* pending = RequestOf(ticket);
    LeaveQueue(pending, PendingState::kRunning);
    worker->job.emplace_back(pending);
  }
  worker->has_job = true;
  options_.statistics->RecordClose(decision_.plan.reason);
}

void Scheduler::OnTimer() {
  Effects effects;
  {
    base::MutexLock lock(&mutex_);
    Dispatch(options_.clock->NowNs(), &effects);
  }
  Carry(&effects);
}

void Scheduler::InstallHook(PendingRequest* pending) {
  const auto& cancellation = pending->request().cancellation;
  if (cancellation == nullptr) return;
  pending->hooked = true;
  cancellation->SetHook([this, pending] { OnCancel(pending); });
}

// Runs on the thread that cancels. The request lives: whoever frees it removes the hook first, which
// waits for this call.
void Scheduler::OnCancel(PendingRequest* pending) {
  std::unique_ptr<PendingRequest> taken;
  std::unique_ptr<ResponseSink> sink;
  ModelRef pin;
  Effects effects;
  {
    base::MutexLock lock(&mutex_);
    if (pending->state == PendingState::kQueued && batcher_.Cancel(TicketOf(pending))) {
      taken.reset(pending);
      pin = pending->request().model;
      LeaveQueue(pending, PendingState::kLeaving);
      pending->hooked = false;
      Abandon(pending, &effects);
      sink = pending->ClaimSink();
    } else if (pending->state == PendingState::kRunning) {
      pin = pending->request().model;
      sink = pending->ClaimSink();
    }
  }
  if (sink != nullptr) {
    options_.statistics->RecordFailure(FailureReason::kCanceled,
                                       options_.clock->NowNs() - pending->started_ns);
    InferResponse response;
    response.status = base::Cancelled("the client cancelled the request");
    sink->OnResponse(std::move(response));
    options_.counts->End();
  }
  Carry(&effects);
}

void Scheduler::Carry(Effects* effects) {
  for (Worker* worker : effects->wake) worker->wake.NotifyOne();
  for (Effects::Refusal& refusal : effects->refusals) {
    InferResponse response;
    response.status = std::move(refusal.status);
    if (refusal.pending->hooked) refusal.pending->request().cancellation->SetHook(nullptr);
    Answer(refusal.pending.get(), std::move(response), refusal.reason);
  }
  if (effects->released) SendReleased();
}

void Scheduler::Answer(PendingRequest* pending, InferResponse response, FailureReason reason) {
  const std::unique_ptr<ResponseSink> sink = pending->ClaimSink();
  if (sink == nullptr) return;
  const int64_t total_ns = options_.clock->NowNs() - pending->started_ns;
  if (response.status.ok()) {
    options_.statistics->RecordSuccess(pending->checked.rows, {total_ns, response.timing});
  } else {
    options_.statistics->RecordFailure(reason, total_ns);
  }
  sink->OnResponse(std::move(response));
  options_.counts->End();
}

void Scheduler::Work(Worker* worker) {
  TakeNext(worker);
  while (WaitForJob(worker)) {
    RunJob(worker);
    TakeNext(worker);
  }
}

// False when the instance is no longer wanted.
bool Scheduler::WaitForJob(Worker* worker) {
  base::MutexLock lock(&mutex_);
  while (!worker->has_job && !worker->leaving) worker->wake.Wait(&mutex_);
  if (worker->has_job) return true;
  std::erase(idle_, worker);
  worker->ended = true;
  --live_workers_;
  worker_ended_.NotifyAll();
  return false;
}

void Scheduler::RunJob(Worker* worker) {
  const int64_t start = options_.clock->NowNs();
  worker->items.resize(worker->job.size());
  for (size_t i = 0; i < worker->job.size(); ++i) {
    PendingRequest& pending = *worker->job[i];
    worker->items[i].request = &pending.request();
    worker->items[i].checked = &pending.checked;
    worker->items[i].response = InferResponse();
  }
  const auto executions = worker->runner->Run(worker->items, start);
  const int64_t end = worker->runner->ended_ns();
  for (const Execution& execution : executions) {
    options_.statistics->RecordExecution(execution, end);
    if (options_.inline_choice != nullptr) options_.inline_choice->Learn(execution.infer_ns);
  }
  std::vector<std::unique_ptr<PendingRequest>> job;
  {
    base::MutexLock lock(&mutex_);
    job.swap(worker->job);
    worker->has_job = false;
  }
  for (size_t i = 0; i < job.size(); ++i) {
    InferResponse response = std::move(worker->items[i].response);
    response.timing.queue_ns = start - job[i]->queued_ns;
    Complete(std::move(job[i]), std::move(response));
  }
  if (preserve_order_) SendReleased();
}

// The instance is free: it takes the next batch itself, or joins the idle ones.
void Scheduler::TakeNext(Worker* worker) {
  Effects effects;
  {
    base::MutexLock lock(&mutex_);
    if (worker->leaving) return;
    idle_.push_back(worker);
    Dispatch(options_.clock->NowNs(), &effects);
  }
  Carry(&effects);
}

void Scheduler::Complete(std::unique_ptr<PendingRequest> pending, InferResponse response) {
  if (pending->hooked) {
    pending->request().cancellation->SetHook(nullptr);
    pending->hooked = false;
  }
  if (!preserve_order_) {
    const FailureReason reason = ReasonOf(response.status);
    Answer(pending.get(), std::move(response), reason);
    return;
  }
  pending->held = std::move(response);
  base::MutexLock lock(&mutex_);
  std::vector<Ticket> released;
  held_.insert(pending.get());
  order_.Finish(pending->position, &released);
  static_cast<void>(pending.release());
  Release(released);
}

// Sends what is in the outbox, in order: one thread at a time, without the mutex.
void Scheduler::SendReleased() {
  for (;;) {
    std::vector<std::unique_ptr<PendingRequest>> batch;
    {
      base::MutexLock lock(&mutex_);
      if (sending_ || outbox_.empty()) return;
      sending_ = true;
      batch.swap(outbox_);
    }
    for (const auto& pending : batch) {
      const FailureReason reason = ReasonOf(pending->held.status);
      Answer(pending.get(), std::move(pending->held), reason);
    }
    base::MutexLock lock(&mutex_);
    sending_ = false;
  }
}

void Scheduler::AddInstance(std::unique_ptr<BatchRunner> runner) {
  base::MutexLock lock(&mutex_);
  std::unique_ptr<Worker> made;
  if (retired_.empty()) {
    made = std::make_unique<Worker>();
  } else {
    made = std::move(retired_.back());
    retired_.pop_back();
  }
  Worker* worker = made.get();
  worker->leaving = worker->ended = false;
  worker->runner = std::move(runner);
  workers_.push_back(std::move(made));
  ++live_workers_;
  worker->thread = base::Thread(options_.name, [this, worker] { Work(worker); });
}

void Scheduler::RemoveInstance() {
  std::unique_ptr<Worker> leaving;
  {
    base::MutexLock lock(&mutex_);
    if (workers_.size() <= 1) return;
    Worker* worker = workers_.back().get();
    worker->leaving = true;
    worker->wake.NotifyOne();
    while (!worker->ended) worker_ended_.Wait(&mutex_);
    leaving = std::move(workers_.back());
    workers_.pop_back();
  }
  leaving->thread.Join();
  leaving->runner.reset();
  base::MutexLock lock(&mutex_);
  retired_.push_back(std::move(leaving));
}

size_t Scheduler::instances() const {
  base::MutexLock lock(&mutex_);
  return workers_.size();
}

void Scheduler::AnswerAll(const base::Status& status) {
  Effects effects;
  std::vector<std::pair<std::unique_ptr<ResponseSink>, int64_t>> sinks;
  {
    base::MutexLock lock(&mutex_);
    closed_ = true;
    closed_status_ = status;
    for (const Ticket ticket : batcher_.DrainAll()) {
      PendingRequest* pending = RequestOf(ticket);
      LeaveQueue(pending, PendingState::kLeaving);
      Abandon(pending, &effects);
      effects.refusals.push_back({std::unique_ptr<PendingRequest>(pending), status});
    }
    const auto claim = [&sinks](PendingRequest* pending) {
      if (auto sink = pending->ClaimSink()) sinks.emplace_back(std::move(sink), pending->started_ns);
    };
    for (const auto& worker : workers_) {
      for (const auto& pending : worker->job) claim(pending.get());
    }
    for (PendingRequest* pending : held_) claim(pending);
  }
  for (auto& [sink, started_ns] : sinks) {
    options_.statistics->RecordFailure(FailureReason::kRejected, options_.clock->NowNs() - started_ns);
    InferResponse response;
    response.status = status;
    sink->OnResponse(std::move(response));
    sink.reset();
    options_.counts->End();
  }
  Carry(&effects);
}

bool Scheduler::Stop(int64_t deadline_ns) {
  options_.timer->Remove(this);
  std::vector<std::unique_ptr<Worker>> workers;
  {
    base::MutexLock lock(&mutex_);
    for (const auto& worker : workers_) {
      worker->leaving = true;
      worker->wake.NotifyOne();
    }
    while (live_workers_ > 0) {
      const int64_t left = deadline_ns - options_.clock->NowNs();
      if (left <= 0) break;
      worker_ended_.WaitFor(&mutex_, std::min(left, base::kNsPerSecond));
    }
    if (live_workers_ > 0) return false;
    workers.swap(workers_);
    idle_.clear();
  }
  for (const auto& worker : workers) worker->thread.Join();
  return true;
}

}  // namespace stoker::host
