#include <stoker/batching/testing/simulator.h>

#include <algorithm>
#include <optional>
#include <queue>
#include <tuple>
#include <utility>

#include <stoker/base/str_cat.h>
#include <stoker/batching/release_order.h>

namespace stoker::batching::testing {
namespace {

/// The host's part: instances, timers and answers around one batcher.
class Loop {
 public:
  Loop(const SimulationSpec& spec, DynamicBatcher batcher, SimulationObserver* observer)
      : spec_(spec), batcher_(std::move(batcher)), observer_(observer), free_(spec.instances) {
    result_.requests.resize(spec.requests.size());
    positions_.resize(spec.requests.size());
    for (const SimulatedRequest& request : spec.requests) {
      if (request.cancel_ns != kNever) cancels_.emplace(request.cancel_ns, request.arrival.ticket);
    }
  }

  base::Result<SimulationResult> Run() {
    while (std::optional<int64_t> time = NextEvent()) {
      now_ = std::max(now_, *time);
      Step();
      AskBatcher();
      if (wake_at_ns_ <= now_) {
        return base::Internal(base::StrCat("at ", now_, " ns the batcher wants to be asked again at ",
                                           wake_at_ns_,
                                           " ns, which is no later: the simulation would never end"));
      }
    }
    result_.end_ns = now_;
    return std::move(result_);
  }

 private:
  struct Running {
    int64_t end_ns;
    uint64_t plan;
    std::vector<Ticket> tickets;
    bool operator>(const Running& other) const {
      return std::tie(end_ns, plan) > std::tie(other.end_ns, other.plan);
    }
  };
  template <typename T>
  using Earliest = std::priority_queue<T, std::vector<T>, std::greater<>>;

  std::optional<int64_t> NextEvent() const {
    int64_t time = wake_at_ns_;
    if (next_arrival_ < spec_.requests.size())
      time = std::min(time, spec_.requests[next_arrival_].arrives_ns);
    if (!running_.empty()) time = std::min(time, running_.top().end_ns);
    // Nobody cancels before it has come.
    if (!cancels_.empty() && cancels_.top().second < next_arrival_)
      time = std::min(time, cancels_.top().first);
    return time == kNever ? std::nullopt : std::optional(time);
  }

  /// One event of this moment: an ended batch, else a cancellation, else an arrival, else the timer.
  void Step() {
    if (!running_.empty() && running_.top().end_ns <= now_) {
      End();
    } else if (!cancels_.empty() && cancels_.top().first <= now_ && cancels_.top().second < next_arrival_) {
      Cancel(cancels_.top().second);
      cancels_.pop();
    } else if (next_arrival_ < spec_.requests.size() && spec_.requests[next_arrival_].arrives_ns <= now_) {
      Arrive(spec_.requests[next_arrival_++].arrival);
    }
  }

  void Arrive(const Arrival& arrival) {
    const base::Status status = batcher_.Enqueue(arrival, now_);
    if (observer_ != nullptr) observer_->OnEnqueue(arrival, now_, status);
    if (!status.ok()) {
      const bool late = status.code() == base::StatusCode::kDeadlineExceeded;
      Close(arrival.ticket, late ? Outcome::kDeadlinePassed : Outcome::kRefused);
    } else if (spec_.config.preserve_ordering) {
      positions_[arrival.ticket] = order_.Admit(arrival.ticket);
    }
  }

  void Cancel(Ticket ticket) {
    if (result_.requests[ticket].outcome != Outcome::kOpen) return;
    const bool was_queued = batcher_.Cancel(ticket);
    if (observer_ != nullptr) observer_->OnCancel(ticket, now_, was_queued);
    if (was_queued) Leave(ticket, Outcome::kCancelled);
  }

  void Leave(Ticket ticket, Outcome outcome) {
    Close(ticket, outcome);
    if (!spec_.config.preserve_ordering) return;
    std::vector<Ticket> released;
    order_.Abandon(positions_[ticket], &released);
    for (Ticket other : released) Release(other);
  }

  void Close(Ticket ticket, Outcome outcome) {
    RequestResult& request = result_.requests[ticket];
    request.outcome = outcome;
    request.finish_ns = request.release_ns = now_;
  }

  void Release(Ticket ticket) {
    result_.requests[ticket].release_ns = now_;
    result_.released.push_back(ticket);
  }

  void End() {
    const Running batch = running_.top();
    running_.pop();
    ++free_;
    for (Ticket ticket : batch.tickets) {
      Close(ticket, Outcome::kServed);
      std::vector<Ticket> released;
      if (spec_.config.preserve_ordering) {
        order_.Finish(positions_[ticket], &released);
      } else {
        released.push_back(ticket);
      }
      for (Ticket other : released) Release(other);
    }
  }

  void Start(const Plan& plan) {
    --free_;
    for (Ticket ticket : plan.tickets) {
      result_.requests[ticket].start_ns = now_;
      result_.requests[ticket].plan = result_.plans;
    }
    ++result_.closed_by[static_cast<size_t>(plan.reason)];
    result_.led_by_aged += plan.led_by_aged ? 1 : 0;
    result_.rows += plan.rows;
    running_.push({now_ + spec_.cost_ns(plan.rows, result_.plans), result_.plans, plan.tickets});
    ++result_.plans;
  }

  void AskBatcher() {
    ++events_;
    const bool needless = spec_.needless_question_every > 0 && events_ % spec_.needless_question_every == 0;
    if (needless) Ask(false);
    do {
      Ask(free_ > 0);
    } while (decision_.has_plan());
    wake_at_ns_ = decision_.wake_at_ns;
  }

  void Ask(bool instance_free) {
    instance_free ? batcher_.Next(now_, &decision_) : batcher_.Poll(now_, &decision_);
    if (observer_ != nullptr) observer_->OnDecision(now_, instance_free, decision_);
    for (const Drop& drop : decision_.drops) {
      Leave(drop.ticket, drop.deadline ? Outcome::kDeadlinePassed : Outcome::kTimedOut);
    }
    if (decision_.has_plan()) Start(decision_.plan);
  }

  const SimulationSpec& spec_;
  DynamicBatcher batcher_;
  SimulationObserver* observer_;
  int free_;
  int64_t now_ = 0;
  int64_t wake_at_ns_ = kNever;
  uint64_t events_ = 0;
  size_t next_arrival_ = 0;
  Earliest<std::pair<int64_t, Ticket>> cancels_;
  Earliest<Running> running_;
  ReleaseOrder order_;
  std::vector<ReleaseOrder::Position> positions_;
  Decision decision_;
  SimulationResult result_;
};

}  // namespace

base::Result<SimulationResult> Simulate(const SimulationSpec& spec, SimulationObserver* observer) {
  STOKER_ASSIGN_OR_RETURN(DynamicBatcher batcher, DynamicBatcher::Make(spec.config));
  return Loop(spec, std::move(batcher), observer).Run();
}

}  // namespace stoker::batching::testing
