#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include <stoker/base/bytes.h>
#include <stoker/base/status.h>

namespace stoker::base {

/// Bytes that some kind of work may hold together: reserve before allocating, and be refused instead
/// of running the machine out of memory. It only counts. Thread-safe; must outlive its reservations.
class MemoryBudget {
 public:
  /// Bytes taken from a budget, given back when destroyed. Movable; not thread-safe itself.
  class Reservation {
   public:
    Reservation() = default;
    Reservation(Reservation&& other) noexcept
        : budget_(std::exchange(other.budget_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
    Reservation& operator=(Reservation&& other) noexcept;
    ~Reservation() { Release(); }
    size_t bytes() const { return bytes_; }
    /// Takes `more` bytes as well, or changes nothing. The reservation must not be empty.
    Status Grow(size_t more);
    void Release();

   private:
    friend class MemoryBudget;
    Reservation(MemoryBudget* budget, size_t bytes) : budget_(budget), bytes_(bytes) {}
    MemoryBudget* budget_ = nullptr;
    size_t bytes_ = 0;
  };

  /// `name` says in messages what the bytes are for: "request bodies".
  MemoryBudget(std::string name, size_t limit_bytes) : name_(std::move(name)), limit_bytes_(limit_bytes) {}
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  /// kResourceExhausted when the limit would be passed.
  Result<Reservation> Reserve(size_t bytes);

  size_t limit_bytes() const { return limit_bytes_; }
  size_t used_bytes() const { return used_bytes_.load(std::memory_order_relaxed); }
  /// The most that was ever reserved at once.
  size_t peak_bytes() const { return peak_bytes_.load(std::memory_order_relaxed); }

 private:
  Status Take(size_t bytes);

  const std::string name_;
  const size_t limit_bytes_;
  std::atomic<size_t> used_bytes_{0};
  std::atomic<size_t> peak_bytes_{0};
};

/// The same bytes, counted on `budget` until the last copy of the result goes, wherever that is.
/// kResourceExhausted when the limit would be passed.
Result<Bytes> Charge(const std::shared_ptr<MemoryBudget>& budget, Bytes bytes);

}  // namespace stoker::base
