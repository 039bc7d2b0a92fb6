#include <stoker/base/gate.h>

#include <stoker/base/check.h>
#include <stoker/base/clock.h>

namespace stoker::base {

Gate::Pass& Gate::Pass::operator=(Pass&& other) noexcept {
  if (this != &other) {
    Leave();
    gate_ = std::exchange(other.gate_, nullptr);
  }
  return *this;
}

void Gate::Pass::Leave() {
  if (gate_ != nullptr) std::exchange(gate_, nullptr)->Leave();
}

Gate::~Gate() { CHECK(inside() == 0); }

Gate::Pass Gate::Enter() {
  uint64_t state = state_.load(std::memory_order_relaxed);
  while ((state & kClosed) == 0) {
    if (state_.compare_exchange_weak(state, state + kOne, std::memory_order_acquire,
                                     std::memory_order_relaxed)) {
      return Pass(this);
    }
  }
  return {};
}

void Gate::Leave() {
  uint64_t state = state_.load(std::memory_order_relaxed);
  while ((state & kClosed) == 0) {
    if (state_.compare_exchange_weak(state, state - kOne, std::memory_order_release,
                                     std::memory_order_relaxed)) {
      return;
    }
  }
  // Whoever waits may destroy the gate once it sees it empty: count and signal under its lock.
  MutexLock lock(&mutex_);
  if (state_.fetch_sub(kOne, std::memory_order_acq_rel) - kOne == kClosed) empty_.NotifyAll();
}

void Gate::Close() { state_.fetch_or(kClosed, std::memory_order_acq_rel); }

void Gate::Wait() {
  CHECK(closed());
  MutexLock lock(&mutex_);
  while (state_.load(std::memory_order_acquire) != kClosed) empty_.Wait(&mutex_);
}

bool Gate::WaitFor(int64_t timeout_ns) {
  CHECK(closed());
  const int64_t deadline_ns = Clock::Real().NowNs() + timeout_ns;
  MutexLock lock(&mutex_);
  while (state_.load(std::memory_order_acquire) != kClosed) {
    const int64_t left_ns = deadline_ns - Clock::Real().NowNs();
    if (left_ns <= 0) return false;
    empty_.WaitFor(&mutex_, left_ns);
  }
  return true;
}

}  // namespace stoker::base
