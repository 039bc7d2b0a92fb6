#pragma once

#include <atomic>
#include <cstdint>

#include <stoker/base/clock.h>

namespace stoker::base::testing {

/// A clock that only moves when told. Thread-safe.
class ManualClock final : public Clock {
 public:
  int64_t NowNs() const override { return now_ns_.load(); }
  int64_t WallNs() const override { return now_ns_.load(); }
  void Advance(int64_t ns) { now_ns_.fetch_add(ns); }

 private:
  std::atomic<int64_t> now_ns_{1};
};

}  // namespace stoker::base::testing
