// The machine's clock and the manual one.
#include <stoker/base/clock.h>

#include <ctime>

#include <gtest/gtest.h>
#include <stoker/base/testing/manual_clock.h>

namespace stoker::base {
namespace {

TEST(ClockTest, RealClockGoesForward) {
  const Clock& clock = Clock::Real();
  int64_t last = clock.NowNs();
  for (int i = 0; i < 1000; ++i) {
    const int64_t now = clock.NowNs();
    EXPECT_GE(now, last);
    last = now;
  }
  const int64_t before = std::time(nullptr);
  const int64_t wall_s = clock.WallNs() / kNsPerSecond;
  EXPECT_GE(wall_s, before - 1);
  EXPECT_LE(wall_s, std::time(nullptr) + 1);
}

TEST(ClockTest, ManualClockMovesWhenTold) {
  testing::ManualClock clock;
  const int64_t start = clock.NowNs();
  EXPECT_EQ(clock.NowNs(), start);
  clock.Advance(5 * kNsPerMs);
  EXPECT_EQ(clock.NowNs() - start, 5'000'000);
  EXPECT_EQ(clock.WallNs(), clock.NowNs());
}

}  // namespace
}  // namespace stoker::base
