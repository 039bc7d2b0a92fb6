#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace stoker::host {

/// Whether runs of a model are short enough for the thread that received the request: an average of
/// what they took decides, however they were run. Thread-safe; threads may lose an update to each other.
class InlineChoice {
 public:
  void Allow() { now_.store(true, std::memory_order_relaxed); }
  bool now() const { return now_.load(std::memory_order_relaxed); }

  void Learn(int64_t infer_ns) {
    const int64_t old = average_ns_.load(std::memory_order_relaxed);
    const int64_t average = old + (std::min(infer_ns, kSampleMaxNs) - old) / kWeight;
    if (average != old) average_ns_.store(average, std::memory_order_relaxed);
    const bool was = now();
    if (was ? average > kStopNs : average < kResumeNs) now_.store(!was, std::memory_order_relaxed);
  }

 private:
  static constexpr int64_t kStopNs = 100'000;
  static constexpr int64_t kResumeNs = 50'000;
  static constexpr int64_t kSampleMaxNs = 4 * kStopNs;  // one preempted run must not look like a slow model
  static constexpr int64_t kWeight = 16;
  std::atomic<bool> now_{false};
  std::atomic<int64_t> average_ns_{0};
};

}  // namespace stoker::host
