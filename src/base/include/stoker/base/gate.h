#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <stoker/base/mutex.h>

namespace stoker::base {

/// Counts work in flight so that it can be ended in order: close the gate (new work is refused), wait
/// until what is inside has left, take down what it used. Thread-safe; entering and leaving an open
/// gate is one atomic step each. The gate must outlive its passes, except that it may be destroyed
/// as soon as Wait has returned.
class Gate {
 public:
  /// Held by a piece of work while it is inside. Movable, leaves when destroyed.
  class Pass {
   public:
    Pass() = default;
    Pass(Pass&& other) noexcept : gate_(std::exchange(other.gate_, nullptr)) {}
    Pass& operator=(Pass&& other) noexcept;
    ~Pass() { Leave(); }
    /// False for a pass that was refused, moved from or left.
    explicit operator bool() const { return gate_ != nullptr; }
    void Leave();

   private:
    friend class Gate;
    explicit Pass(Gate* gate) : gate_(gate) {}
    Gate* gate_ = nullptr;
  };

  Gate() = default;
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  ~Gate();

  /// A pass, or an empty one when the gate is closed.
  [[nodiscard]] Pass Enter();
  /// Refuses new work from now on. Idempotent.
  void Close();
  /// After Close: waits until nothing is inside. Not from inside.
  void Wait();
  /// The same for at most `timeout_ns`; false when it ran out.
  bool WaitFor(int64_t timeout_ns);

  bool closed() const { return (state_.load(std::memory_order_relaxed) & kClosed) != 0; }
  size_t inside() const { return state_.load(std::memory_order_relaxed) / kOne; }

 private:
  static constexpr uint64_t kClosed = 1;
  static constexpr uint64_t kOne = 2;
  void Leave();

  std::atomic<uint64_t> state_{0};  // twice the number inside, plus kClosed
  Mutex mutex_;                     // held by whoever leaves a closed gate
  CondVar empty_;
};

}  // namespace stoker::base
