#pragma once

#include <cstdint>

namespace stoker::base {

/// Time, so that tests and simulations can bring their own. Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  /// Monotonic nanoseconds since an arbitrary start. For intervals and deadlines.
  virtual int64_t NowNs() const = 0;
  /// Nanoseconds since the Unix epoch. For people and files only.
  virtual int64_t WallNs() const = 0;
  /// The machine's clock.
  static Clock& Real();
};

inline constexpr int64_t kNsPerUs = 1000;
inline constexpr int64_t kNsPerMs = 1000 * 1000;
inline constexpr int64_t kNsPerSecond = 1000 * 1000 * 1000;

}  // namespace stoker::base
