#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include <stoker/base/status.h>
#include <stoker/batching/dynamic.h>

/// A model's instances around a real DynamicBatcher, in virtual time: what the host does with threads
/// and clocks, here as one deterministic loop. For tests, and for predicting what a load would see.
/// Nothing here is thread-safe; separate simulations may run on separate threads.
namespace stoker::batching::testing {

/// A request of the load. `arrival.ticket` is its index.
struct SimulatedRequest {
  Arrival arrival;
  int64_t arrives_ns = 0;
  int64_t cancel_ns = kNever;  ///< when its client gives up; without effect once it runs
};

/// How requests come. Rates are per virtual second.
struct LoadSpec {
  int64_t requests = 100;
  double rate = 1000;
  int64_t burst = 1;  ///< requests that come at the same moment (1: Poisson arrivals)
  int64_t max_rows = 1;
  uint64_t shapes = 1;
  uint64_t priorities = 0;      ///< drawn from 0..priorities
  int64_t max_timeout_ns = 0;   ///< own timeouts are drawn from 0..this
  double cancel_share = 0;      ///< of the requests
  int64_t max_patience_ns = 0;  ///< those cancel within this time
  double deadline_share = 0;    ///< of the requests
  int64_t max_deadline_ns = 0;  ///< those have a deadline within this time
  int64_t tick_ns = 1;          ///< all times are rounded down to multiples of this
};
/// The same seed gives the same load everywhere.
std::vector<SimulatedRequest> MakeLoad(const LoadSpec& spec, uint64_t seed);

struct SimulationSpec {
  DynamicConfig config;
  int instances = 1;
  /// How long a batch of so many rows runs. `plan` counts from 0: vary with it for jitter.
  std::function<int64_t(int64_t rows, uint64_t plan)> cost_ns;
  std::vector<SimulatedRequest> requests;  ///< ascending by arrives_ns
  /// Ask the batcher once more than needed at every n-th event (0: never); must change nothing.
  int needless_question_every = 0;
};

enum class Outcome : uint8_t { kOpen, kServed, kRefused, kTimedOut, kDeadlinePassed, kCancelled };

struct RequestResult {
  Outcome outcome = Outcome::kOpen;
  int64_t start_ns = 0;    ///< its batch began to run
  int64_t finish_ns = 0;   ///< its batch ended, or it was dropped, refused or cancelled
  int64_t release_ns = 0;  ///< its answer went out (later than finish_ns only with preserve_ordering)
  uint64_t plan = 0;       ///< which batch
};

struct SimulationResult {
  std::vector<RequestResult> requests;
  std::vector<Ticket> released;  ///< served requests in the order of their answers
  uint64_t plans = 0;
  int64_t rows = 0;  ///< over all plans
  std::array<uint64_t, kCloseReasonCount> closed_by{};
  uint64_t led_by_aged = 0;  ///< plans in which strict priority gave way
  int64_t end_ns = 0;
};

/// Sees every call to the batcher, with its outcome.
class SimulationObserver {
 public:
  virtual ~SimulationObserver() = default;
  virtual void OnEnqueue(const Arrival& arrival, int64_t now_ns, const base::Status& status) = 0;
  virtual void OnCancel(Ticket ticket, int64_t now_ns, bool was_queued) = 0;
  /// `instance_free`: the call was Next, otherwise Poll.
  virtual void OnDecision(int64_t now_ns, bool instance_free, const Decision& decision) = 0;
};

/// Runs the load to its end. The loop relies on wake_at_ns and on nothing else to ask again, so a wake-up
/// that comes late shows in the results. An invalid config is an error, and so is a wake-up in the past.
base::Result<SimulationResult> Simulate(const SimulationSpec& spec, SimulationObserver* observer = nullptr);

/// A random small schedule (configuration, load, instances, costs) that reaches the corners: ties in
/// time, tight limits, all policies. The same seed gives the same schedule everywhere.
SimulationSpec RandomSchedule(uint64_t seed);

}  // namespace stoker::batching::testing
