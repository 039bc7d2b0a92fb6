#include <stoker/batching/testing/schedule_checker.h>

#include <algorithm>
#include <set>

#include <stoker/base/str_cat.h>

namespace stoker::batching::testing {

ScheduleChecker::ScheduleChecker(const DynamicConfig& config) : config_(config) {}

void ScheduleChecker::Expect(bool holds, const char* rule, int64_t got, int64_t want) {
  if (holds || violations_.size() >= 20) return;
  violations_.push_back(base::StrCat("at ", now_, " ns: ", rule, " (got ", got, ", want ", want, ")"));
}

const QueuePolicy& ScheduleChecker::PolicyOf(uint64_t level) const {
  const auto found = config_.level_policies.find(level);
  return found == config_.level_policies.end() ? config_.default_policy : found->second;
}

int64_t ScheduleChecker::HoldEnd(const Waiting& w) const {
  int64_t wait = DelayNs();
  const int64_t end = w.delays ? w.deadline_ns : std::min(w.timeout_ns, w.deadline_ns);
  if (config_.start_before_timeout && end != kNever) wait = std::min(wait, (end - w.arrived_ns) / 2);
  return w.arrived_ns + wait;
}

bool ScheduleChecker::IsAged(const Waiting& w) const {
  return config_.ageing_limit_ns > 0 && now_ - w.arrived_ns >= std::max(config_.ageing_limit_ns, DelayNs());
}

int64_t ScheduleChecker::NextExpiry(const Waiting& w) const {
  return IsDelayed(w) ? w.deadline_ns : std::min(w.timeout_ns, w.deadline_ns);
}

/// The order of service.
bool ScheduleChecker::Before(const Waiting& a, const Waiting& b) const {
  if (a.level != b.level) return a.level < b.level;
  if (IsDelayed(a) != IsDelayed(b)) return IsDelayed(b);
  if (IsDelayed(a) && a.timeout_ns != b.timeout_ns) return a.timeout_ns < b.timeout_ns;
  return a.number < b.number;
}

const ScheduleChecker::Waiting* ScheduleChecker::First() const {
  const Waiting* first = nullptr;
  for (const Waiting& w : waiting_) {
    if (first == nullptr || Before(w, *first)) first = &w;
  }
  return first;
}

const ScheduleChecker::Waiting* ScheduleChecker::Find(Ticket ticket) const {
  for (const Waiting& w : waiting_) {
    if (w.arrival.ticket == ticket) return &w;
  }
  return nullptr;
}

void ScheduleChecker::Erase(Ticket ticket) {
  std::erase_if(waiting_, [&](const Waiting& w) { return w.arrival.ticket == ticket; });
}

bool ScheduleChecker::IsPreferred(int64_t rows) const {
  const auto& sizes = config_.preferred_batch_sizes;
  if (sizes.empty()) return rows == config_.max_batch_size;
  return std::find(sizes.begin(), sizes.end(), rows) != sizes.end();
}

int64_t ScheduleChecker::LargestPreferred() const {
  const auto& sizes = config_.preferred_batch_sizes;
  return sizes.empty() ? config_.max_batch_size : *std::max_element(sizes.begin(), sizes.end());
}

/// From where a batch of the leader's is taken: the whole line, or that of its shape.
ScheduleChecker::Line ScheduleChecker::LineOf(const Waiting& leader) const {
  Line line;
  for (const Waiting& w : waiting_) {
    if (!config_.look_past_shapes || w.arrival.shape_key == leader.arrival.shape_key) line.push_back(&w);
  }
  std::sort(line.begin(), line.end(), [this](const Waiting* a, const Waiting* b) { return Before(*a, *b); });
  return line;
}

/// May an instance run the batch that the leader's line gives, without waiting longer?
bool ScheduleChecker::CouldRun(const Waiting& leader) const {
  if (DelayNs() == 0) return true;
  const Line line = LineOf(leader);
  int64_t rows = 0;
  for (const Waiting* w : line) {
    if (w->arrival.shape_key != line.front()->arrival.shape_key) return true;
    if (rows > 0 && rows + w->rows > std::min(config_.max_batch_size, LargestPreferred())) return true;
    rows += w->rows;
    if (IsPreferred(rows) || rows >= LargestPreferred() || HoldEnd(*w) <= now_) return true;
  }
  return false;
}

void ScheduleChecker::OnEnqueue(const Arrival& arrival, int64_t now_ns, const base::Status& status) {
  now_ = std::max(now_, now_ns);
  Waiting w;
  w.arrival = arrival;
  w.rows = config_.max_batch_size == 0 ? 1 : arrival.rows;
  w.level = 1;
  if (config_.priority_levels > 0) {
    const bool known = arrival.priority >= 1 && arrival.priority <= config_.priority_levels;
    w.level = known ? arrival.priority : config_.default_priority_level;
  }
  const QueuePolicy& policy = PolicyOf(w.level);
  int64_t timeout = policy.default_timeout_ns;
  if (policy.allow_timeout_override && arrival.timeout_ns != 0)
    timeout = std::min(timeout, arrival.timeout_ns);
  w.number = admitted_.size();
  w.arrived_ns = now_;
  w.timeout_ns = timeout == 0 ? kNever : now_ + timeout;
  w.deadline_ns = arrival.deadline_ns == 0 ? kNever : arrival.deadline_ns;
  w.delays = policy.delay_on_timeout;
  w.found_waiting = waiting_.size();

  int64_t level_size = 0, rows = 0;
  for (const Waiting& other : waiting_) {
    if (IsGone(other)) continue;
    level_size += other.level == w.level;
    rows += other.rows;
  }
  const bool too_late = w.deadline_ns <= now_;
  const bool full = (policy.max_queue_size > 0 && level_size >= policy.max_queue_size) ||
                    rows + w.rows > config_.queue_cap_rows ||
                    static_cast<int64_t>(waiting_.size()) >= config_.queue_cap_requests;
  const auto want = too_late ? base::StatusCode::kDeadlineExceeded
                    : full   ? base::StatusCode::kUnavailable
                             : base::StatusCode::kOk;
  Expect(status.code() == want, "admission follows the limits", static_cast<int64_t>(status.code()),
         static_cast<int64_t>(want));
  if (!status.ok()) return;
  waiting_.push_back(w);
  admitted_.push_back(arrival.ticket);
}

void ScheduleChecker::OnCancel(Ticket ticket, int64_t now_ns, bool was_queued) {
  now_ = std::max(now_, now_ns);
  const Waiting* w = Find(ticket);
  // One whose time is up may be on its way out already.
  Expect(was_queued ? w != nullptr : w == nullptr || IsGone(*w), "cancelling finds those that wait",
         static_cast<int64_t>(ticket));
  if (was_queued) Erase(ticket);
}

void ScheduleChecker::OnDecision(int64_t now_ns, bool instance_free, const Decision& decision) {
  now_ = std::max(now_, now_ns);
  CheckDrops(decision.drops);
  if (decision.has_plan()) {
    Expect(instance_free, "a plan needs a free instance");
    Line members;
    CheckMembers(decision.plan, &members);
    if (members.size() == decision.plan.tickets.size()) {
      CheckPlace(decision.plan, members);
      CheckLeader(decision.plan, members);
      CheckAgeing(decision.plan, members);
    }
    for (Ticket ticket : decision.plan.tickets) Erase(ticket);
  } else if (instance_free) {
    CheckIdle();
  }
  CheckWake(instance_free, decision);
}

void ScheduleChecker::CheckDrops(const std::vector<Drop>& drops) {
  for (const Drop& drop : drops) {
    const Waiting* w = Find(drop.ticket);
    Expect(w != nullptr, "only waiting requests are dropped, once", static_cast<int64_t>(drop.ticket));
    if (w == nullptr) continue;
    Expect(IsGone(*w), "no request is dropped early", now_, NextExpiry(*w));
    const bool deadline = w->deadline_ns < w->timeout_ns || w->delays;
    Expect(drop.deadline == deadline, "a drop names its cause", drop.deadline, deadline);
    const int64_t limit = (deadline ? w->deadline_ns : w->timeout_ns) - w->arrived_ns;
    Expect(drop.limit_ns == limit, "a drop tells its limit", drop.limit_ns, limit);
    Expect(drop.waited_ns >= limit && drop.waited_ns <= now_ - w->arrived_ns, "a drop tells the time waited",
           drop.waited_ns, limit);
    Erase(drop.ticket);
  }
  for (const Waiting& w : waiting_) {
    Expect(!IsGone(w), "a request whose time is up is dropped at the next decision",
           static_cast<int64_t>(w.arrival.ticket));
  }
}

void ScheduleChecker::CheckMembers(const Plan& plan, Line* members) {
  int64_t rows = 0;
  for (Ticket ticket : plan.tickets) {
    const Waiting* w = Find(ticket);
    const bool fresh = w != nullptr && std::find(members->begin(), members->end(), w) == members->end();
    Expect(fresh, "a plan holds waiting requests, each once", static_cast<int64_t>(ticket));
    if (!fresh) return;
    Expect(w->arrival.shape_key == Find(plan.tickets.front())->arrival.shape_key, "a batch has one shape");
    members->push_back(w);
    rows += w->rows;
  }
  Expect(rows == plan.rows, "a plan tells its rows", plan.rows, rows);
  Expect((plan.reason == CloseReason::kUnbatched) == Alone(), "only unbatched models close that way");
  if (Alone()) {
    Expect(plan.tickets.size() == 1, "a request runs alone", static_cast<int64_t>(plan.tickets.size()), 1);
  } else {
    Expect(rows <= config_.max_batch_size, "max_batch_size holds", rows, config_.max_batch_size);
  }
}

/// Nobody is passed within the line that the batch was taken from.
void ScheduleChecker::CheckPlace(const Plan& plan, const Line& members) {
  if (Alone()) return;
  Line line = LineOf(*members.front());
  if (plan.led_by_aged) {
    std::erase(line, &waiting_.front());
    line.insert(line.begin(), &waiting_.front());
  }
  const bool prefix =
      line.size() >= members.size() && std::equal(members.begin(), members.end(), line.begin());
  Expect(prefix, "a batch is taken from the front of its line", static_cast<int64_t>(plan.tickets.front()));
  if (prefix) CheckEnd(plan, line);
}

/// Where the batch ended: at a preferred size as long as nobody it could hold has waited long enough,
/// else as late as possible.
void ScheduleChecker::CheckEnd(const Plan& plan, const Line& line) {
  int64_t rows = 0;
  size_t reach = 0, preferred = 0, before_overflow = 0;
  bool due = false;
  for (; reach < line.size() && line[reach]->arrival.shape_key == line[0]->arrival.shape_key; ++reach) {
    if (reach > 0 && rows + line[reach]->rows > config_.max_batch_size) break;
    if (before_overflow == 0 && rows + line[reach]->rows > LargestPreferred()) before_overflow = reach;
    rows += line[reach]->rows;
    if (IsPreferred(rows)) preferred = reach + 1;
    due |= DelayNs() > 0 && HoldEnd(*line[reach]) <= now_;
  }
  size_t want = reach;
  if (!due && preferred > 0) {
    want = preferred;
  } else if (!due && before_overflow > 0) {
    want = before_overflow;
  }
  const size_t count = plan.tickets.size();
  Expect(count == want, "a batch ends where it should", static_cast<int64_t>(count),
         static_cast<int64_t>(want));
  CheckReason(plan, line, count < line.size() ? line[count] : nullptr);
}

void ScheduleChecker::CheckReason(const Plan& plan, const Line& line, const Waiting* next) {
  bool waited = false, due = false;
  for (size_t i = 0; i < plan.tickets.size(); ++i) {
    waited |= now_ - line[i]->arrived_ns >= DelayNs();
    due |= HoldEnd(*line[i]) <= now_;
  }
  const bool same_shape = next != nullptr && next->arrival.shape_key == line[0]->arrival.shape_key;
  const int64_t with_next = plan.rows + (same_shape ? next->rows : 0);
  bool holds = false;
  switch (plan.reason) {
    case CloseReason::kFull:
      holds = plan.rows == config_.max_batch_size || with_next > config_.max_batch_size;
      break;
    case CloseReason::kPreferred:
      holds = (IsPreferred(plan.rows) || plan.rows >= LargestPreferred() || with_next > LargestPreferred()) &&
              (DelayNs() == 0 || !waited);
      break;
    case CloseReason::kDelay:
      holds = DelayNs() > 0 && waited && next == nullptr;
      break;
    case CloseReason::kDeadline:
      holds = DelayNs() > 0 && due && !waited && next == nullptr;
      break;
    case CloseReason::kSlotFree:
      holds = DelayNs() == 0 && next == nullptr && !IsPreferred(plan.rows);
      break;
    case CloseReason::kShape:
      holds = !config_.look_past_shapes && next != nullptr && !same_shape;
      break;
    case CloseReason::kUnbatched:
      break;
  }
  Expect(holds, CloseReasonName(plan.reason), plan.rows, with_next);
}

void ScheduleChecker::CheckLeader(const Plan& plan, const Line& members) {
  if (plan.led_by_aged) return;
  const Waiting* first = First();
  if (std::find(members.begin(), members.end(), first) != members.end()) return;
  Expect(!Alone() && DelayNs() > 0 && config_.look_past_shapes && !CouldRun(*first),
         "the first in line leads unless it waits for company", static_cast<int64_t>(plan.tickets.front()),
         static_cast<int64_t>(first->arrival.ticket));
  bool somebody_due = false, shape_due = false;
  for (const Waiting& w : waiting_) {
    if (HoldEnd(w) > now_) continue;
    somebody_due = true;
    shape_due |= w.arrival.shape_key == members.front()->arrival.shape_key;
  }
  if (somebody_due) {
    Expect(shape_due, "those who waited long enough go before full batches");
    return;
  }
  for (const Waiting& w : waiting_) {
    Expect(!CouldRun(w) || !Before(w, *members.front()) ||
               w.arrival.shape_key == members.front()->arrival.shape_key,
           "among full batches the first in line goes first", static_cast<int64_t>(plan.tickets.front()),
           static_cast<int64_t>(w.arrival.ticket));
  }
}

/// Nobody starves, and strict priority gives way no more often than it must.
void ScheduleChecker::CheckAgeing(const Plan& plan, const Line& members) {
  const Waiting& oldest = waiting_.front();
  const bool aged = IsAged(oldest);
  const bool contained = std::find(members.begin(), members.end(), &oldest) != members.end();
  if (plan.led_by_aged) {
    Expect(aged && members.front() == &oldest && First() != &oldest,
           "only an aged oldest request goes out of turn");
    Expect(passed_over_ == DynamicBatcher::kAgedShare - 1,
           "strict priority gives way no earlier than it must", passed_over_, DynamicBatcher::kAgedShare - 1);
  }
  passed_over_ = aged && !contained ? passed_over_ + 1 : 0;
  Expect(passed_over_ < DynamicBatcher::kAgedShare, "the aged oldest request is in one of kAgedShare plans",
         passed_over_, DynamicBatcher::kAgedShare);
  for (Waiting& w : waiting_) {
    if (!IsAged(w)) continue;
    const uint64_t bound = DynamicBatcher::kAgedShare * (w.found_waiting + 1);
    ++w.plans_aged;
    Expect(w.plans_aged <= bound, "nobody starves beyond the bound", static_cast<int64_t>(w.plans_aged),
           static_cast<int64_t>(bound));
  }
}

void ScheduleChecker::CheckIdle() {
  if (waiting_.empty()) return;
  if (!config_.look_past_shapes || Alone()) {
    Expect(!CouldRun(*First()), "no instance idles while the line's front could run");
    return;
  }
  for (const Waiting& w : waiting_) {
    Expect(!CouldRun(w), "no instance idles while somebody could run",
           static_cast<int64_t>(w.arrival.ticket));
  }
}

void ScheduleChecker::CheckWake(bool instance_free, const Decision& decision) {
  int64_t want = kNever;
  for (const Waiting& w : waiting_) {
    want = std::min(want, NextExpiry(w));
    if (instance_free && !decision.has_plan()) want = std::min(want, HoldEnd(w));
  }
  Expect(decision.wake_at_ns == want, "wake-up times are exact", decision.wake_at_ns, want);
  Expect(want > now_, "a wake-up lies ahead", want, now_);
}

void ScheduleChecker::Finish(const SimulationSpec& spec, const SimulationResult& result) {
  Expect(waiting_.empty(), "nothing is left waiting", static_cast<int64_t>(waiting_.size()));
  std::vector<Ticket> served;
  for (size_t i = 0; i < result.requests.size(); ++i) {
    Expect(result.requests[i].outcome != Outcome::kOpen, "every request has an outcome",
           static_cast<int64_t>(i));
    Expect(result.requests[i].release_ns >= result.requests[i].finish_ns, "answers follow their runs");
  }
  for (Ticket ticket : admitted_) {
    if (result.requests[ticket].outcome == Outcome::kServed) served.push_back(ticket);
  }
  std::vector<Ticket> released = result.released;
  if (!spec.config.preserve_ordering) {
    std::sort(released.begin(), released.end());
    std::sort(served.begin(), served.end());
  }
  Expect(released == served, "answers go out once, in order of admission if asked",
         static_cast<int64_t>(released.size()), static_cast<int64_t>(served.size()));
}

}  // namespace stoker::batching::testing
