#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include <stoker/base/check.h>
#include <stoker/base/str_cat.h>
#include <stoker/batching/dynamic.h>

#include "dynamic/batch_former.h"
#include "dynamic/request_queue.h"

namespace stoker::batching {
namespace {

using internal::BatchFormer;
using internal::Entry;
using internal::Group;
using internal::GroupList;
using internal::RequestQueue;
using internal::Walker;

/// How many other lanes and shapes are looked at when the first in line still waits for company.
constexpr int kOthersLookedAt = 64;

int64_t SaturatingAdd(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? kNever : sum;
}

}  // namespace

struct DynamicBatcher::Impl {
  explicit Impl(DynamicConfig c) : config(std::move(c)), former(config), queue(former.ample_rows()) {}

  uint64_t LevelOf(uint64_t priority) const;
  const QueuePolicy& PolicyOf(uint64_t level) const;
  base::Status Check(const Arrival& arrival) const;
  base::Status Admit(int64_t rows, uint64_t level, const QueuePolicy& policy);
  Entry MakeEntry(const Arrival& arrival, uint64_t level, const QueuePolicy& policy) const;

  void Begin(int64_t now_ns, Decision* out);
  void Expire(std::vector<Drop>* drops);
  bool IsAged(const Entry& entry) const;
  void ChoosePlan(Plan* plan);
  bool PlanOthers(Plan* plan);
  Entry* FirstAmple();
  bool TryPlan(Entry* leader, bool leader_first, Plan* plan);
  int64_t NextExpiry() const;
  int64_t HoldEnd() const;

  const DynamicConfig config;
  BatchFormer former;
  RequestQueue queue;
  int64_t now = std::numeric_limits<int64_t>::min();
  int passed_over = 0;           ///< plans in a row that left an aged oldest request waiting
  std::vector<Drop> unreported;  ///< found expired while no decision was asked for
};

/// Without levels everybody is on level 1.
uint64_t DynamicBatcher::Impl::LevelOf(uint64_t priority) const {
  if (config.priority_levels == 0) return 1;
  return priority == 0 || priority > config.priority_levels ? config.default_priority_level : priority;
}

const QueuePolicy& DynamicBatcher::Impl::PolicyOf(uint64_t level) const {
  if (config.level_policies.empty()) return config.default_policy;
  const auto found = config.level_policies.find(level);
  return found == config.level_policies.end() ? config.default_policy : found->second;
}

base::Status DynamicBatcher::Impl::Check(const Arrival& arrival) const {
  if (config.max_batch_size > 0 && (arrival.rows < 1 || arrival.rows > config.max_batch_size)) {
    return base::InvalidArgument(base::StrCat("request batch-size is ", arrival.rows,
                                              ", must be within 1 and ", config.max_batch_size,
                                              " (max_batch_size)"));
  }
  if (arrival.deadline_ns > 0 && arrival.deadline_ns <= now) {
    return DropStatus({.ticket = arrival.ticket, .deadline = true});
  }
  if (queue.Find(arrival.ticket) != nullptr) {
    return base::AlreadyExists(
        base::StrCat("ticket ", arrival.ticket, " is queued already; give each its own"));
  }
  return base::OkStatus();
}

/// Refuses what does not fit. Requests whose time is up leave before a newcomer is refused for them.
base::Status DynamicBatcher::Impl::Admit(int64_t rows, uint64_t level, const QueuePolicy& policy) {
  const auto level_full = [&] {
    return policy.max_queue_size > 0 && queue.LevelSize(level) >= policy.max_queue_size;
  };
  const auto rows_full = [&] { return queue.rows() > config.queue_cap_rows - rows; };
  if (level_full() || rows_full()) Expire(&unreported);
  if (level_full()) {
    return base::Unavailable(base::StrCat("Exceeds maximum queue size: ", policy.max_queue_size,
                                          " requests wait at priority level ", level,
                                          " (max_queue_size); send it again later"));
  }
  const int64_t requests = static_cast<int64_t>(queue.size() + unreported.size());
  if (requests >= config.queue_cap_requests || rows_full()) {
    return base::Unavailable(base::StrCat("Exceeds maximum queue size: ", requests, " requests with ",
                                          queue.rows(), " rows wait, limits ", config.queue_cap_requests,
                                          " and ", config.queue_cap_rows, "; send it again later"));
  }
  return base::OkStatus();
}

Entry DynamicBatcher::Impl::MakeEntry(const Arrival& arrival, uint64_t level,
                                      const QueuePolicy& policy) const {
  Entry entry;
  entry.ticket = arrival.ticket;
  entry.rows = config.max_batch_size == 0 ? 1 : arrival.rows;
  entry.level = level;
  entry.arrival_ns = now;
  int64_t timeout = policy.default_timeout_ns;
  // Without a default the request's own timeout has no effect: clients of Triton know it so.
  if (policy.allow_timeout_override && arrival.timeout_ns > 0 && arrival.timeout_ns < timeout) {
    timeout = arrival.timeout_ns;
  }
  if (timeout > 0) entry.timeout_ns = SaturatingAdd(now, timeout);
  if (arrival.deadline_ns > 0) entry.deadline_ns = arrival.deadline_ns;
  entry.expiry_ns = std::min(entry.timeout_ns, entry.deadline_ns);
  const int64_t end = policy.delay_on_timeout ? entry.deadline_ns : entry.expiry_ns;
  if (former.delay_ns() > 0 && end != kNever && config.start_before_timeout &&
      (end - now) / 2 < former.delay_ns()) {
    entry.hold_ns = now + (end - now) / 2;
  }
  return entry;
}

void DynamicBatcher::Impl::Begin(int64_t now_ns, Decision* out) {
  now = std::max(now, now_ns);
  out->plan.tickets.clear();
  out->plan.rows = 0;
  out->plan.led_by_aged = false;
  out->drops.clear();
  out->drops.swap(unreported);
  out->wake_at_ns = kNever;
  Expire(&out->drops);
}

void DynamicBatcher::Impl::Expire(std::vector<Drop>* drops) {
  for (Entry* entry = queue.NextToExpire(); entry != nullptr && entry->expiry_ns <= now;
       entry = queue.NextToExpire()) {
    const bool deadline = entry->deadline_ns < entry->timeout_ns;
    if (!deadline && PolicyOf(entry->level).delay_on_timeout) {
      queue.Delay(entry);
      continue;
    }
    drops->push_back({.ticket = entry->ticket,
                      .deadline = deadline,
                      .waited_ns = now - entry->arrival_ns,
                      .limit_ns = entry->expiry_ns - entry->arrival_ns});
    queue.Remove(entry);
  }
}

bool DynamicBatcher::Impl::IsAged(const Entry& entry) const {
  return config.ageing_limit_ns > 0 &&
         now - entry.arrival_ns >= std::max(config.ageing_limit_ns, former.delay_ns());
}

/// Who leads: the oldest when it was passed over too often, else the first in line, else (that one
/// still waits for company) somebody who needn't wait.
void DynamicBatcher::Impl::ChoosePlan(Plan* plan) {
  Entry* oldest = queue.Oldest();
  if (oldest == nullptr) return;
  const Ticket oldest_ticket = oldest->ticket;
  const bool aged = IsAged(*oldest);
  if (aged && passed_over >= kAgedShare - 1) {
    plan->led_by_aged = oldest != queue.First();
    CHECK(TryPlan(oldest, true, plan));
  } else if (!TryPlan(queue.First(), false, plan) && !PlanOthers(plan)) {
    return;
  }
  oldest = queue.Oldest();
  const bool left_waiting = oldest != nullptr && oldest->ticket == oldest_ticket;
  passed_over = aged && left_waiting ? passed_over + 1 : 0;
}

/// Without look_past_shapes only the front of the line may run.
bool DynamicBatcher::Impl::PlanOthers(Plan* plan) {
  if (!config.look_past_shapes) return false;
  Entry* leader = queue.NextToHold();
  if (leader == nullptr || leader->hold_ns > now) {
    const auto waited = [this](const Entry* e) {
      return e != nullptr && now - e->arrival_ns >= former.delay_ns();
    };
    leader = waited(queue.Oldest()) ? queue.Oldest() : nullptr;
    int looked_at = 0;
    for (auto lane = queue.lanes().begin(); leader != nullptr && lane != queue.lanes().end(); ++lane) {
      if (++looked_at > kOthersLookedAt) break;
      if (!waited(lane->second.head)) continue;
      leader = lane->second.head;
      break;
    }
  }
  if (leader == nullptr) leader = FirstAmple();
  return leader != nullptr && TryPlan(leader, false, plan);
}

/// Of the shapes with rows enough to end a batch, the one whose first comes first in line.
Entry* DynamicBatcher::Impl::FirstAmple() {
  const auto rank = [](const Entry& e) { return std::make_tuple(e.level, e.delayed, e.order); };
  Entry* best = nullptr;
  int looked_at = 0;
  for (Group* group = queue.FirstAmple(); group != nullptr; group = group->ample_next) {
    if (++looked_at > kOthersLookedAt) break;
    Entry* first = Walker<GroupList>(group->lanes).Next();
    if (best != nullptr && rank(*best) < rank(*first)) continue;
    if (former.Form(queue, first, false, now)) best = first;
  }
  return best;
}

/// Takes the leader's batch out of the queue, if it may run now.
bool DynamicBatcher::Impl::TryPlan(Entry* leader, bool leader_first, Plan* plan) {
  const bool short_of_rows = config.look_past_shapes && leader->group->rows < former.ample_rows();
  if (former.delay_ns() > 0 && short_of_rows && now < HoldEnd()) return false;
  const auto end = former.Form(queue, leader, leader_first, now);
  if (!end) return false;
  plan->reason = end->reason;
  for (size_t i = 0; i < end->count; ++i) {
    Entry* entry = former.entries()[i];
    plan->tickets.push_back(entry->ticket);
    plan->rows += entry->rows;
    queue.Remove(entry);
  }
  return true;
}

int64_t DynamicBatcher::Impl::NextExpiry() const {
  const Entry* entry = queue.NextToExpire();
  return entry == nullptr ? kNever : entry->expiry_ns;
}

/// When somebody has waited for company long enough.
int64_t DynamicBatcher::Impl::HoldEnd() const {
  if (queue.Oldest() == nullptr) return kNever;
  const int64_t end = SaturatingAdd(queue.Oldest()->arrival_ns, former.delay_ns());
  return queue.NextToHold() == nullptr ? end : std::min(end, queue.NextToHold()->hold_ns);
}

base::Result<DynamicBatcher> DynamicBatcher::Make(DynamicConfig config) {
  STOKER_RETURN_IF_ERROR(ValidateDynamicConfig(config));
  return DynamicBatcher(std::move(config));
}

DynamicBatcher::DynamicBatcher(DynamicConfig config) : impl_(std::make_unique<Impl>(std::move(config))) {}
DynamicBatcher::~DynamicBatcher() = default;
DynamicBatcher::DynamicBatcher(DynamicBatcher&&) noexcept = default;
DynamicBatcher& DynamicBatcher::operator=(DynamicBatcher&&) noexcept = default;

base::Status DynamicBatcher::Enqueue(const Arrival& arrival, int64_t now_ns) {
  Impl& impl = *impl_;
  impl.now = std::max(impl.now, now_ns);
  STOKER_RETURN_IF_ERROR(impl.Check(arrival));
  const uint64_t level = impl.LevelOf(arrival.priority);
  const QueuePolicy& policy = impl.PolicyOf(level);
  const Entry entry = impl.MakeEntry(arrival, level, policy);
  STOKER_RETURN_IF_ERROR(impl.Admit(entry.rows, level, policy));
  impl.queue.Add(entry, impl.former.alone() ? 0 : arrival.shape_key);
  return base::OkStatus();
}

bool DynamicBatcher::Cancel(Ticket ticket) {
  Entry* entry = impl_->queue.Find(ticket);
  if (entry == nullptr) return false;
  impl_->queue.Remove(entry);
  return true;
}

void DynamicBatcher::Next(int64_t now_ns, Decision* out) {
  impl_->Begin(now_ns, out);
  impl_->ChoosePlan(&out->plan);
  out->wake_at_ns = impl_->NextExpiry();
  if (!out->has_plan()) out->wake_at_ns = std::min(out->wake_at_ns, impl_->HoldEnd());
}

void DynamicBatcher::Poll(int64_t now_ns, Decision* out) {
  impl_->Begin(now_ns, out);
  out->wake_at_ns = impl_->NextExpiry();
}

std::vector<Ticket> DynamicBatcher::DrainAll() {
  std::vector<Ticket> tickets;
  for (const Drop& drop : impl_->unreported) tickets.push_back(drop.ticket);
  impl_->unreported.clear();
  while (Entry* entry = impl_->queue.Oldest()) {
    tickets.push_back(entry->ticket);
    impl_->queue.Remove(entry);
  }
  return tickets;
}

size_t DynamicBatcher::queued_requests() const { return impl_->queue.size(); }
int64_t DynamicBatcher::queued_rows() const { return impl_->queue.rows(); }
const DynamicConfig& DynamicBatcher::config() const { return impl_->config; }

}  // namespace stoker::batching
