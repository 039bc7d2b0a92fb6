#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <stoker/batching/testing/simulator.h>

namespace stoker::batching::testing {

/// Holds every decision of a simulation against the rules, with a list of the waiting requests that is
/// searched from end to end each time: slow, plain, and independent of the batcher's data structures.
///
/// Checked at each call: nothing is lost, answered twice or served when it should be gone; sizes and
/// queue bounds hold, and refusals are due; timeouts and deadlines are neither early nor late; a batch
/// has one shape, is what the line of that shape (or the line) gives and ended for the reason it
/// says; order is kept within level and shape; strict priority gives way only to the oldest, and in
/// time; no instance idles while somebody need not wait; wake-up times are exact.
class ScheduleChecker final : public SimulationObserver {
 public:
  explicit ScheduleChecker(const DynamicConfig& config);

  void OnEnqueue(const Arrival& arrival, int64_t now_ns, const base::Status& status) override;
  void OnCancel(Ticket ticket, int64_t now_ns, bool was_queued) override;
  void OnDecision(int64_t now_ns, bool instance_free, const Decision& decision) override;

  /// Call at the end: all requests have one outcome, and answers came in order if they had to.
  void Finish(const SimulationSpec& spec, const SimulationResult& result);

  /// What broke, one line each (at most 20 are kept). Empty: all rules held.
  const std::vector<std::string>& violations() const { return violations_; }

 private:
  struct Waiting {
    Arrival arrival;
    int64_t rows = 0;
    uint64_t level = 0;
    uint64_t number = 0;  ///< order of admission
    int64_t arrived_ns = 0;
    int64_t timeout_ns = 0;      ///< absolute, kNever: none
    int64_t deadline_ns = 0;     ///< absolute, kNever: none
    bool delays = false;         ///< its timeout delays it, instead of dropping it
    uint64_t found_waiting = 0;  ///< how many were there when it came
    uint64_t plans_aged = 0;     ///< plans made without it since it became too old to be passed over
  };
  using Line = std::vector<const Waiting*>;

  const QueuePolicy& PolicyOf(uint64_t level) const;
  bool Alone() const { return !config_.batching || config_.max_batch_size == 0; }
  int64_t DelayNs() const { return Alone() ? 0 : config_.max_queue_delay_ns; }
  int64_t HoldEnd(const Waiting& w) const;
  bool IsAged(const Waiting& w) const;
  bool IsDelayed(const Waiting& w) const { return w.delays && w.timeout_ns <= now_; }
  bool IsGone(const Waiting& w) const { return w.deadline_ns <= now_ || (!w.delays && w.timeout_ns <= now_); }
  int64_t NextExpiry(const Waiting& w) const;
  bool Before(const Waiting& a, const Waiting& b) const;
  const Waiting* First() const;
  const Waiting* Find(Ticket ticket) const;
  void Erase(Ticket ticket);
  bool IsPreferred(int64_t rows) const;
  int64_t LargestPreferred() const;
  Line LineOf(const Waiting& leader) const;
  bool CouldRun(const Waiting& leader) const;

  void CheckDrops(const std::vector<Drop>& drops);
  void CheckMembers(const Plan& plan, Line* members);
  void CheckPlace(const Plan& plan, const Line& members);
  void CheckEnd(const Plan& plan, const Line& members);
  void CheckReason(const Plan& plan, const Line& members, const Waiting* next);
  void CheckLeader(const Plan& plan, const Line& members);
  void CheckAgeing(const Plan& plan, const Line& members);
  void CheckIdle();
  void CheckWake(bool instance_free, const Decision& decision);
  void Expect(bool holds, const char* rule, int64_t got = 0, int64_t want = 0);

  const DynamicConfig config_;
  int64_t now_ = 0;
  std::vector<Waiting> waiting_;  ///< by admission
  std::vector<Ticket> admitted_;  ///< in order
  int passed_over_ = 0;           ///< plans in a row without an aged oldest request
  std::vector<std::string> violations_;
};

}  // namespace stoker::batching::testing
