#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <vector>

#include <stoker/base/status.h>

/// Dynamic batching: which waiting requests run together, and when.
///
/// A DynamicBatcher is a pure decision object in virtual time. It knows tickets, row counts, shape
/// keys and times; never tensors, threads or a clock. The caller tells it the time, asks for a plan
/// when an instance is free, and runs the plan itself. Because a batch is formed only at the moment an
/// instance takes it, everything that waits by then can join ("late growth").
///
/// Thread-safety: none; the owner calls it under its own lock. Times: nanoseconds on any one
/// monotonic scale; a `now` that goes backwards counts as the latest one seen.
namespace stoker::batching {

/// Names a request. Chosen by the caller, unique among those queued.
using Ticket = uint64_t;

inline constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

/// What one priority level does with a request that waits too long, and how many may wait.
struct QueuePolicy {
  bool delay_on_timeout = false;   ///< false: drop it (REJECT). true: behind those in time (DELAY).
  int64_t default_timeout_ns = 0;  ///< 0: none.
  bool allow_timeout_override =
      false;                   ///< a request's own timeout counts if non-zero and smaller than the default
  int64_t max_queue_size = 0;  ///< requests that may wait at this level, delayed ones included; 0: no limit
};

struct DynamicConfig {
  int64_t max_batch_size = 0;  ///< rows; 0: the model has no batch dimension, every request runs alone
  bool batching = false;       ///< false: every request runs alone (priorities and limits still hold)
  std::vector<int64_t> preferred_batch_sizes;  ///< empty: acts as {max_batch_size}
  int64_t max_queue_delay_ns = 0;              ///< how long a free instance may wait for more company
  bool preserve_ordering = false;              ///< only checked here; see ReleaseOrder
  uint64_t priority_levels = 0;                ///< 1 is served first; 0: no priorities
  uint64_t default_priority_level = 0;         ///< within 1..priority_levels when that is not 0
  QueuePolicy default_policy;
  std::map<uint64_t, QueuePolicy> level_policies;

  // Stoker's own settings.
  bool look_past_shapes = true;  ///< false: a batch ends at the first request with another shape key
  /// Nobody waits for company longer than half of the time in which it must be started (its timeout if
  /// that drops it, or its deadline). false: a timeout shorter than the delay drops it, as in Triton.
  bool start_before_timeout = true;
  /// Against starving under strict priorities (see DynamicBatcher::Next); 0: strict for ever.
  int64_t ageing_limit_ns = 10'000'000'000;
  int64_t queue_cap_requests = int64_t{1} << 18;  ///< over all levels; bounds the memory used here
  int64_t queue_cap_rows = kNever;                ///< over all levels
};

/// Says what is wrong with a configuration: sizes out of range, levels that do not exist, settings
/// that exclude each other.
base::Status ValidateDynamicConfig(const DynamicConfig& config);

/// A request that comes to wait.
struct Arrival {
  Ticket ticket = 0;
  int64_t rows = 1;  ///< its batch size; not looked at when max_batch_size is 0
  /// Requests may share a batch only if their keys are equal. Must identify what it stands for (an
  /// interned number, not a hash): two shapes under one key would be run together.
  uint64_t shape_key = 0;
  uint64_t priority = 0;    ///< 0 or out of range: the default level
  int64_t timeout_ns = 0;   ///< the request's own; see QueuePolicy::allow_timeout_override
  int64_t deadline_ns = 0;  ///< absolute: not worth starting from then on (a gRPC deadline); 0: none
};

/// What closed a batch.
enum class CloseReason : uint8_t {
  kFull,       ///< max_batch_size reached, or the next in line would pass it
  kPreferred,  ///< a preferred size reached, or the next in line would pass the largest one
  kDelay,      ///< a member waited max_queue_delay
  kSlotFree,   ///< no delay set: an instance was free and took what was there
  kShape,      ///< the next in line has another shape (only without look_past_shapes)
  kDeadline,   ///< a member would otherwise miss its timeout or deadline (start_before_timeout)
  kUnbatched,  ///< this model runs every request alone
};
inline constexpr size_t kCloseReasonCount = 7;
/// "full", "preferred", … for labels and logs.
const char* CloseReasonName(CloseReason reason);

/// Requests to run together, in this order.
struct Plan {
  std::vector<Ticket> tickets;
  int64_t rows = 0;
  CloseReason reason = CloseReason::kUnbatched;
  bool led_by_aged = false;  ///< strict priority gave way to the oldest request
};

/// A request that left the queue unserved.
struct Drop {
  Ticket ticket = 0;
  bool deadline = false;  ///< true: its deadline passed; false: its queue timeout (policy REJECT)
  int64_t waited_ns = 0;
  int64_t limit_ns = 0;  ///< how long it was allowed to wait
};
/// What to answer: UNAVAILABLE "Request timeout expired…" or DEADLINE_EXCEEDED, with limit and wait.
base::Status DropStatus(const Drop& drop);

/// The outcome of Next or Poll. Give the same object again: its memory is reused.
struct Decision {
  Plan plan;                    ///< no tickets: nothing to run now
  std::vector<Drop> drops;      ///< answer these with DropStatus
  int64_t wake_at_ns = kNever;  ///< call again then at the latest (and after an Enqueue); kNever: no need

  bool has_plan() const { return !plan.tickets.empty(); }
};

/// The waiting requests of one model version. Costs: Enqueue and Cancel O(log n) at worst, O(1) without
/// timeouts; Next O(batch + log n), and while the first in line waits for company a look at no more than
/// 64 other shapes that could fill a batch.
///
/// Order. Level 1 before 2 and so on; within a level those in time before those delayed; within that,
/// first come first served. With look_past_shapes, a batch is led by the first in line and takes
/// from the whole line those of its shape, so alternating shapes still fill batches; nobody is passed
/// within its level and shape.
class DynamicBatcher {
 public:
  /// Fails as ValidateDynamicConfig does.
  static base::Result<DynamicBatcher> Make(DynamicConfig config);
  ~DynamicBatcher();
  DynamicBatcher(DynamicBatcher&&) noexcept;
  DynamicBatcher& operator=(DynamicBatcher&&) noexcept;

  /// Queues a request. Afterwards ask Next if an instance is free, else arm a timer for Poll.
  /// UNAVAILABLE "Exceeds maximum queue size…" when the level or the whole queue is full,
  /// INVALID_ARGUMENT for rows outside 1..max_batch_size, DEADLINE_EXCEEDED when the deadline has
  /// passed, ALREADY_EXISTS for a ticket that is queued.
  base::Status Enqueue(const Arrival& arrival, int64_t now_ns);

  /// Takes a request out. False: not queued (already planned, dropped or unknown).
  bool Cancel(Ticket ticket);

  /// An instance is free: what should it run? Expired requests are reported first. When a plan comes
  /// and another instance is free, ask again at once; without a plan, ask at wake_at_ns again.
  ///
  /// Nobody starves: of any kAgedShare plans in a row made while the oldest request of all has waited
  /// max(ageing_limit, max_queue_delay), one contains it. So a request that found m others waiting is
  /// started within that limit plus kAgedShare × (m + 1) plans, whatever comes later.
  void Next(int64_t now_ns, Decision* out);
  static constexpr int kAgedShare = 8;

  /// No instance is free: reports expired requests only. wake_at_ns is the next expiry.
  void Poll(int64_t now_ns, Decision* out);

  /// Empties the queue; the tickets in order of arrival. Drops that were not reported yet are included.
  std::vector<Ticket> DrainAll();

  size_t queued_requests() const;
  int64_t queued_rows() const;
  const DynamicConfig& config() const;

 private:
  explicit DynamicBatcher(DynamicConfig config);

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stoker::batching
