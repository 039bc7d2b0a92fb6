#include <stoker/base/check.h>
#include <stoker/batching/release_order.h>

namespace stoker::batching {

ReleaseOrder::Position ReleaseOrder::Admit(Ticket ticket) {
  places_.push_back({ticket, State::kOpen});
  return first_ + places_.size() - 1;
}

void ReleaseOrder::Finish(Position position, std::vector<Ticket>* released) {
  Settle(position, State::kFinished, released);
}

void ReleaseOrder::Abandon(Position position, std::vector<Ticket>* released) {
  Settle(position, State::kAbandoned, released);
}

bool ReleaseOrder::IsFirst(Position position) const { return position == first_ && !places_.empty(); }

void ReleaseOrder::Settle(Position position, State state, std::vector<Ticket>* released) {
  if (position < first_) return;
  CHECK(position - first_ < places_.size());
  Place& place = places_[position - first_];
  if (place.state != State::kOpen) return;
  place.state = state;
  for (; !places_.empty() && places_.front().state != State::kOpen; places_.pop_front(), ++first_) {
    if (places_.front().state == State::kFinished) released->push_back(places_.front().ticket);
  }
}

}  // namespace stoker::batching
