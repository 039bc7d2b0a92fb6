#pragma once

#include <cstddef>
#include <memory>

namespace stoker::host {

/// Memory for batches and outputs, 64-byte aligned, handed out again once its last owner lets go, so
/// that large runs do not fault their pages in each time. Small pieces come straight from the heap.
/// What lies idle is bounded by `idle_bytes_max`. Thread-safe; memory may outlive the pool.
class BufferPool {
 public:
  explicit BufferPool(size_t idle_bytes_max);
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  /// At least `size` bytes, uninitialised. Null when the system has none.
  std::shared_ptr<std::byte> Allocate(size_t size);
  size_t idle_bytes() const;

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the memory that is out
};

}  // namespace stoker::host
