#include <stoker/observe/metrics.h>

namespace stoker::observe {

size_t ThreadShard() {
  static std::atomic<size_t> next{0};
  thread_local const size_t shard = next.fetch_add(1, std::memory_order_relaxed) % Counter::kShards;
  return shard;
}

uint64_t Counter::Value() const {
  uint64_t sum = 0;
  for (const auto& shard : shards_) sum += shard.value.load(std::memory_order_relaxed);
  return sum;
}

void Gauge::Add(double amount) {
  double old = value_.load(std::memory_order_relaxed);
  while (!value_.compare_exchange_weak(old, old + amount, std::memory_order_relaxed)) {
  }
}

}  // namespace stoker::observe
