// Mutex, CondVar and Guarded: exclusion, hand-over and time-out.
#include <stoker/base/mutex.h>

#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace stoker::base {
namespace {

TEST(MutexTest, GuardedCountsExactly) {
  Guarded<std::vector<int>> numbers(size_t{1}, 5);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&numbers] {
      for (int round = 0; round < 1000; ++round) numbers.With([](std::vector<int>& v) { v.push_back(1); });
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(numbers.With([](const std::vector<int>& v) { return v.size(); }), 4001u);
  EXPECT_EQ(numbers.With([](const std::vector<int>& v) { return v.front(); }), 5);
}

struct Turn {
  Mutex mutex;
  CondVar changed;
  int next GUARDED_BY(mutex) = 0;

  void Take(int mine, int players) {
    MutexLock lock(&mutex);
    while (next % players != mine) changed.Wait(&mutex);
    ++next;
    changed.NotifyAll();
  }
};

TEST(MutexTest, CondVarHandsOver) {
  Turn turn;
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&turn, i] {
      for (int round = 0; round < 300; ++round) turn.Take(i, 3);
    });
  }
  for (std::thread& thread : threads) thread.join();
  MutexLock lock(&turn.mutex);
  EXPECT_EQ(turn.next, 900);
}

TEST(MutexTest, WaitForGivesUp) {
  Mutex mutex;
  CondVar never;
  MutexLock lock(&mutex);
  // Spurious wake-ups return true; sooner or later the time runs out.
  while (never.WaitFor(&mutex, 1000)) {
  }
}

}  // namespace
}  // namespace stoker::base
