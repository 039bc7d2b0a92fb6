#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <stoker/base/status.h>

namespace stoker::observe {

using Labels = std::vector<std::pair<std::string, std::string>>;

/// Index of the calling thread's shard, stable for its life.
size_t ThreadShard();

/// A sum that only grows. Add costs a relaxed add on a cache line of the thread's own; Value sums
/// the shards. Thread-safe.
class Counter {
 public:
  void Add(uint64_t amount = 1) { shards_[ThreadShard()].value.fetch_add(amount, std::memory_order_relaxed); }
  uint64_t Value() const;

 private:
  static constexpr size_t kShards = 8;
  struct alignas(64) Shard {
    std::atomic<uint64_t> value{0};
  };
  std::array<Shard, kShards> shards_;
  friend size_t ThreadShard();
};

/// A value that goes up and down. Thread-safe.
class Gauge {
 public:
  void Set(double value) { value_.store(value, std::memory_order_relaxed); }
  void Add(double amount);
  double Value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_{0};
};

/// Counts of observations per bucket, their sum and number. Bounds ascend; +Inf is implied. Observe
/// is wait-free but for the sum. Thread-safe.
class Histogram {
 public:
  explicit Histogram(std::vector<double> upper_bounds);
  ~Histogram();
  void Observe(double value);
  struct Snapshot {
    std::vector<uint64_t> cumulative;  // per bound, then +Inf
    double sum = 0;
    uint64_t count = 0;
  };
  Snapshot Read() const;
  const std::vector<double>& upper_bounds() const { return upper_bounds_; }
  /// `count` bounds from `first`, each `factor` times the one before.
  static std::vector<double> Exponential(double first, double factor, int count);

 private:
  std::vector<double> upper_bounds_;
  struct Shard;
  std::unique_ptr<Shard[]> shards_;
};

enum class MetricType : uint8_t { kCounter, kGauge, kHistogram };
enum class TextFormat : uint8_t { kPrometheus004, kOpenMetrics100 };

/// All metric families of a process; renders them. Thread-safe. Series are removed when the handle
/// that made them goes, so an unloaded model leaves nothing behind.
class Registry {
 public:
  Registry();
  ~Registry();

  /// Declares a family. The same name twice with the same type and help is one family; with another
  /// type it is a bug of ours. `name` as it appears in text 0.0.4 (Triton's counters have no _total:
  /// such families are written as `unknown` in OpenMetrics so that names stay the same).
  void Declare(std::string_view name, MetricType type, std::string_view help);

  /// Series of declared families. A second one with equal labels returns the first. At most
  /// `series_max` series a family: beyond it a shared overflow series is given and counted.
  std::shared_ptr<Counter> AddCounter(std::string_view family, Labels labels);
  std::shared_ptr<Gauge> AddGauge(std::string_view family, Labels labels);
  std::shared_ptr<Histogram> AddHistogram(std::string_view family, Labels labels,
                                          std::vector<double> upper_bounds);
  /// A gauge or counter read by calling `read` at each scrape, until the returned handle is dropped
  /// (which waits for a running call).
  std::shared_ptr<void> AddCallback(std::string_view family, Labels labels, std::function<double()> read);

  std::string Render(TextFormat format) const;
  size_t series() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// What a scrape's Accept header asks for, and the matching Content-Type.
TextFormat NegotiateFormat(std::string_view accept);
std::string_view ContentType(TextFormat format);

}  // namespace stoker::observe
