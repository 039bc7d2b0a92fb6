#include <algorithm>

#include <stoker/base/check.h>
#include <stoker/observe/metrics.h>

namespace stoker::observe {
namespace {
constexpr size_t kHistogramShards = 4;
}

// Each shard has its own allocation, so that threads do not share cache lines.
struct alignas(64) Histogram::Shard {
  std::vector<std::atomic<uint64_t>> counts;
  std::atomic<double> sum{0};
};

Histogram::Histogram(std::vector<double> upper_bounds)
    : upper_bounds_(std::move(upper_bounds)), shards_(std::make_unique<Shard[]>(kHistogramShards)) {
  CHECK(std::is_sorted(upper_bounds_.begin(), upper_bounds_.end()));
  for (size_t i = 0; i < kHistogramShards; ++i) {
    shards_[i].counts = std::vector<std::atomic<uint64_t>>(upper_bounds_.size() + 1);
  }
}

Histogram::~Histogram() = default;

void Histogram::Observe(double value) {
  const auto bucket =
      std::lower_bound(upper_bounds_.begin(), upper_bounds_.end(), value) - upper_bounds_.begin();
  Shard& shard = shards_[ThreadShard() % kHistogramShards];
  shard.counts[static_cast<size_t>(bucket)].fetch_add(1, std::memory_order_relaxed);
  double old = shard.sum.load(std::memory_order_relaxed);
  while (!shard.sum.compare_exchange_weak(old, old + value, std::memory_order_relaxed)) {
  }
}

Histogram::Snapshot Histogram::Read() const {
  Snapshot out;
  out.cumulative.assign(upper_bounds_.size() + 1, 0);
  for (size_t i = 0; i < kHistogramShards; ++i) {
    for (size_t b = 0; b < out.cumulative.size(); ++b) {
      out.cumulative[b] += shards_[i].counts[b].load(std::memory_order_relaxed);
    }
    out.sum += shards_[i].sum.load(std::memory_order_relaxed);
  }
  for (size_t b = 1; b < out.cumulative.size(); ++b) out.cumulative[b] += out.cumulative[b - 1];
  // The count is derived from the buckets, so that it equals the +Inf bucket even while others observe.
  out.count = out.cumulative.back();
  return out;
}

std::vector<double> Histogram::Exponential(double first, double factor, int count) {
  std::vector<double> out;
  for (double bound = first; count > 0; --count, bound *= factor) out.push_back(bound);
  return out;
}

}  // namespace stoker::observe
