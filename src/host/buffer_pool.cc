#include "buffer_pool.h"

#include <array>
#include <bit>
#include <new>
#include <vector>

#include <stoker/base/mutex.h>

namespace stoker::host {
namespace {

constexpr std::align_val_t kAlignment{64};
constexpr int kClassMin = 14;  // 16 KiB: below that the heap is quick enough
constexpr int kClassMax = 40;

void Free(std::byte* memory) { ::operator delete(memory, kAlignment); }

std::byte* New(size_t size) {
  return static_cast<std::byte*>(::operator new(size == 0 ? 1 : size, kAlignment, std::nothrow));
}

}  // namespace

struct BufferPool::State {
  explicit State(size_t max) : idle_bytes_max(max) {}
  ~State() {
    for (auto& list : idle) {
      for (std::byte* memory : list) Free(memory);
    }
  }

  std::byte* Take(int size_class) {
    base::MutexLock lock(&mutex);
    auto& list = idle[static_cast<size_t>(size_class)];
    if (list.empty()) return nullptr;
    std::byte* memory = list.back();
    list.pop_back();
    idle_bytes -= size_t{1} << size_class;
    return memory;
  }

  void Give(std::byte* memory, int size_class) {
    {
      base::MutexLock lock(&mutex);
      const size_t bytes = size_t{1} << size_class;
      if (bytes <= idle_bytes_max && idle_bytes <= idle_bytes_max - bytes) {
        idle[static_cast<size_t>(size_class)].push_back(memory);
        idle_bytes += bytes;
        return;
      }
    }
    Free(memory);
  }

  const size_t idle_bytes_max;
  base::Mutex mutex;
  std::array<std::vector<std::byte*>, kClassMax + 1> idle GUARDED_BY(mutex);  // by class: 2^class bytes each
  size_t idle_bytes GUARDED_BY(mutex) = 0;
};

BufferPool::BufferPool(size_t idle_bytes_max) : state_(std::make_shared<State>(idle_bytes_max)) {}
BufferPool::~BufferPool() = default;

std::shared_ptr<std::byte> BufferPool::Allocate(size_t size) {
  const int size_class = size <= 1 ? 0 : static_cast<int>(std::bit_width(size - 1));
  if (size_class < kClassMin || size_class > kClassMax) {
    std::byte* memory = New(size);
    return memory == nullptr ? nullptr : std::shared_ptr<std::byte>(memory, Free);
  }
  std::byte* memory = state_->Take(size_class);
  if (memory == nullptr) memory = New(size_t{1} << size_class);
  if (memory == nullptr) return nullptr;
  return {memory, [state = state_, size_class](std::byte* given) { state->Give(given, size_class); }};
}

size_t BufferPool::idle_bytes() const {
  base::MutexLock lock(&state_->mutex);
  return state_->idle_bytes;
}

}  // namespace stoker::host
