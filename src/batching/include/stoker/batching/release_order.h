#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include <stoker/batching/dynamic.h>

namespace stoker::batching {

/// Releases answers in the order in which their requests were admitted (preserve_ordering), whichever
/// instance finishes first. Answers that come from elsewhere (a cache) go through it too.
///
/// Pure bookkeeping, not thread-safe: admit under the lock that orders the requests. Holds one small
/// record per request from Admit until everything before it is settled, so it is bounded by what the
/// caller admits. All calls are O(1) amortised.
class ReleaseOrder {
 public:
  /// A place in the line, for the later calls.
  using Position = uint64_t;

  /// The next place in line goes to `ticket`.
  Position Admit(Ticket ticket);

  /// The request's (last) answer is there. Appends to `released` every ticket that may be answered
  /// now, in order; that can be none, or many. A second call for the same place does nothing.
  void Finish(Position position, std::vector<Ticket>* released);

  /// The request leaves the line without waiting for its turn (refused, cancelled, expired: its
  /// answer goes out at once). Appends the tickets that this sets free, never its own.
  void Abandon(Position position, std::vector<Ticket>* released);

  /// Everything before it is settled: a request with many answers may send them as they come.
  bool IsFirst(Position position) const;

  /// Places that are not settled, or settled and behind one that is not.
  size_t held() const { return places_.size(); }

 private:
  enum class State : uint8_t { kOpen, kFinished, kAbandoned };
  struct Place {
    Ticket ticket;
    State state;
  };
  void Settle(Position position, State state, std::vector<Ticket>* released);

  std::deque<Place> places_;
  Position first_ = 0;
};

}  // namespace stoker::batching
