#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace stoker::net::internal {

/// Bytes that all connections of a server may hold at a time for what they receive. Thread-safe.
class ReceiveBudget {
 public:
  explicit ReceiveBudget(size_t bytes_max) : bytes_max_(bytes_max) {}
  /// False, with nothing taken, when `bytes` more would exceed the maximum.
  bool Take(size_t bytes);
  /// Takes them even beyond the maximum: they are in use already.
  void TakeAnyway(size_t bytes) { used_.fetch_add(bytes, std::memory_order_relaxed); }
  void Give(size_t bytes) { used_.fetch_sub(bytes, std::memory_order_relaxed); }
  bool Full() const { return used_.load(std::memory_order_relaxed) >= bytes_max_; }
  size_t used() const { return used_.load(std::memory_order_relaxed); }

 private:
  const size_t bytes_max_;
  std::atomic<size_t> used_{0};
};

/// A 64-byte aligned block that requests point into. Shared (std::shared_ptr) between a connection
/// and the requests it has handed out; gives back what it was charged when the last of them goes.
/// Filled by the I/O thread only, and only where no request points to.
class ReceiveMemory {
 public:
  /// Null when there is no memory. Pages of large blocks cost nothing until they are written.
  static std::shared_ptr<ReceiveMemory> Allocate(size_t capacity);
  ~ReceiveMemory();
  ReceiveMemory(const ReceiveMemory&) = delete;
  ReceiveMemory& operator=(const ReceiveMemory&) = delete;

  std::byte* data() { return data_; }
  size_t capacity() const { return capacity_; }
  std::string_view text(size_t offset, size_t size) const {
    return {reinterpret_cast<const char*>(data_) + offset, size};
  }
  /// Books `bytes` more on `budget` until this memory goes; false when it does not have them.
  bool Charge(const std::shared_ptr<ReceiveBudget>& budget, size_t bytes);
  /// The same for what is in use already.
  void ChargeAnyway(const std::shared_ptr<ReceiveBudget>& budget, size_t bytes);
  bool charged() const { return charged_ > 0; }
  /// Text that lives as long as this memory.
  void set_peer(const std::shared_ptr<const std::string>& peer) {
    if (peer_ != peer) peer_ = peer;
  }

 private:
  ReceiveMemory(std::byte* data, size_t capacity) : data_(data), capacity_(capacity) {}

  std::byte* const data_;
  const size_t capacity_;
  size_t charged_ = 0;
  std::shared_ptr<ReceiveBudget> budget_;
  std::shared_ptr<const std::string> peer_;
};

/// Whether nobody else holds `memory`, with all they did to it visible here. The copy matters: the
/// count that use_count reads alone would not order another thread's last reads before ours.
template <typename T>
bool SoleOwner(const std::shared_ptr<T>& memory) {
  const std::shared_ptr<T> copy = memory;
  return copy.use_count() == 2;
}

}  // namespace stoker::net::internal
