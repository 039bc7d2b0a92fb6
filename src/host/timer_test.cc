// Aim: alarms come, the latest wish counts, and nobody is called after Remove. Method: clients that
// count their calls; the fakes and the real clock, waiting for what must come.
#include "timer.h"

#include <atomic>

#include <gtest/gtest.h>

#include <stoker/base/mutex.h>
#include <stoker/base/thread.h>
#include <stoker/host/request.h>

namespace stoker::host {
namespace {

class Caller final : public Timer::Client {
 public:
  void OnTimer() override {
    base::MutexLock lock(&mutex_);
    ++calls_;
    changed_.NotifyAll();
  }
  void WaitFor(int calls) {
    base::MutexLock lock(&mutex_);
    while (calls_ < calls) changed_.Wait(&mutex_);
  }
  int calls() {
    base::MutexLock lock(&mutex_);
    return calls_;
  }

 private:
  base::Mutex mutex_;
  base::CondVar changed_;
  int calls_ GUARDED_BY(mutex_) = 0;
};

int64_t Now() { return base::Clock::Real().NowNs(); }
constexpr int64_t kFar = 3600 * base::kNsPerSecond;

TEST(TimerTest, CallsInTimeAndOnce) {
  Timer timer(&base::Clock::Real());
  Caller soon, far, past;
  timer.Arm(&far, Now() + kFar);
  timer.Arm(&soon, Now() + base::kNsPerMs);
  timer.Arm(&past, 1);
  soon.WaitFor(1);
  past.WaitFor(1);
  EXPECT_EQ(far.calls(), 0);
  timer.Arm(&soon, Now() + base::kNsPerMs);
  soon.WaitFor(2);
  for (Caller* caller : {&soon, &far, &past}) timer.Remove(caller);
  EXPECT_EQ(past.calls(), 1);
}

TEST(TimerTest, TheLatestWishCounts) {
  Timer timer(&base::Clock::Real());
  Caller moved, other;
  timer.Arm(&moved, Now() + kFar);
  timer.Arm(&moved, Now());
  moved.WaitFor(1);
  timer.Arm(&moved, Now() + base::kNsPerMs);
  timer.Arm(&moved, Now() + kFar);
  timer.Arm(&other, Now() + 3 * base::kNsPerMs);
  other.WaitFor(1);
  EXPECT_EQ(moved.calls(), 1);
  timer.Arm(&moved, std::numeric_limits<int64_t>::max());
  timer.Remove(&moved);
  timer.Remove(&other);
}

TEST(TimerTest, ManyClientsFromManyThreads) {
  Timer timer(&base::Clock::Real());
  std::vector<base::Thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back("arm", [&timer] {
      for (int i = 0; i < 200; ++i) {
        Caller caller;
        timer.Arm(&caller, Now() + (i % 3 == 0 ? kFar : 1000 * (i % 7)));
        if (i % 3 != 0) caller.WaitFor(1);
        timer.Remove(&caller);
      }
    });
  }
}

TEST(CancellationTest, HooksRunOnceAndNeverAfterRemoval) {
  Cancellation cancellation;
  int calls = 0;
  cancellation.SetHook([&calls] { ++calls; });
  cancellation.Cancel();
  cancellation.Cancel();
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(cancellation.cancelled());
  cancellation.SetHook([&calls] { calls += 10; });
  EXPECT_EQ(calls, 11) << "a late hook is called at once";
  Cancellation quiet;
  quiet.SetHook([&calls] { ++calls; });
  quiet.SetHook(nullptr);
  quiet.Cancel();
  EXPECT_EQ(calls, 11);
}

TEST(CancellationTest, RemovalWaitsForARunningHook) {
  for (int round = 0; round < 300; ++round) {
    Cancellation cancellation;
    auto alive = std::make_unique<std::atomic<int>>(0);
    cancellation.SetHook([raw = alive.get()] { raw->fetch_add(1); });
    base::Thread canceller("cancel", [&cancellation] { cancellation.Cancel(); });
    cancellation.SetHook(nullptr);
    alive.reset();  // a hook that still ran would touch freed memory
  }
}

TEST(CancellationTest, AHookMayRemoveItself) {
  Cancellation cancellation;
  cancellation.SetHook([&cancellation] { cancellation.SetHook(nullptr); });
  cancellation.Cancel();
  EXPECT_TRUE(cancellation.cancelled());
}

}  // namespace
}  // namespace stoker::host
