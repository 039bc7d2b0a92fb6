#include <stoker/base/clock.h>

#include <ctime>

namespace stoker::base {
namespace {

int64_t Read(clockid_t id) {
  timespec now{};
  clock_gettime(id, &now);
  return now.tv_sec * kNsPerSecond + now.tv_nsec;
}

class RealClock final : public Clock {
 public:
  int64_t NowNs() const override { return Read(CLOCK_MONOTONIC); }
  int64_t WallNs() const override { return Read(CLOCK_REALTIME); }
};

}  // namespace

Clock& Clock::Real() {
  static RealClock clock;
  return clock;
}

}  // namespace stoker::base
