// Aim: tasks, timers, descriptors and round ends run on the loop's thread, in the promised order,
// whoever registers what from where. Method: real loops over pipes; waiting by latches only.

#include <stoker/net/event_loop.h>

#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <atomic>
#include <latch>
#include <thread>

#include <stoker/base/clock.h>

namespace stoker::net {
namespace {

std::unique_ptr<EventLoops> Start(size_t count) {
  auto loops = EventLoops::Start(count);
  EXPECT_TRUE(loops.ok()) << loops.status().ToString();
  return std::move(loops).value();
}

struct Pipe {
  Pipe() { EXPECT_EQ(pipe(fds), 0); }
  ~Pipe() {
    close(fds[0]);
    close(fds[1]);
  }
  void Put() { EXPECT_EQ(write(fds[1], "x", 1), 1); }
  void Take() {
    char byte;
    EXPECT_EQ(read(fds[0], &byte, 1), 1);
  }
  int fds[2];
};

TEST(EventLoopTest, PostedTasksOfEachThreadRunInItsOrder) {
  auto loops = Start(1);
  constexpr int kThreads = 4;
  constexpr int kTasks = 5000;
  std::vector<std::vector<int>> seen(kThreads);
  std::latch done(kThreads * kTasks);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kTasks; ++i) {
        loops->at(0).Post([&, t, i] {
          EXPECT_TRUE(loops->at(0).InLoopThread());
          seen[t].push_back(i);
          done.count_down();
        });
      }
    });
  }
  for (auto& thread : threads) thread.join();
  done.wait();
  for (const auto& order : seen) {
    ASSERT_EQ(order.size(), static_cast<size_t>(kTasks));
    for (int i = 0; i < kTasks; ++i) ASSERT_EQ(order[i], i);
  }
  EXPECT_FALSE(loops->at(0).InLoopThread());
}

TEST(EventLoopTest, PostFromTheLoopRunsLaterNotInside) {
  auto loops = Start(1);
  std::latch done(1);
  std::string order;
  loops->at(0).Post([&] {
    loops->at(0).Post([&] {
      order += "c";
      done.count_down();
    });
    loops->at(0).AtRoundEnd([&] { order += "b"; });
    order += "a";
  });
  done.wait();
  EXPECT_EQ(order, "abc");
}

TEST(EventLoopTest, RoundEndTasksMayAppendMore) {
  auto loops = Start(1);
  std::latch done(1);
  int depth = 0;
  std::function<void()> again = [&] {
    if (++depth == 10) {
      done.count_down();
    } else {
      loops->at(0).AtRoundEnd(again);
    }
  };
  loops->at(0).Post([&] { loops->at(0).AtRoundEnd(again); });
  done.wait();
  EXPECT_EQ(depth, 10);
}

TEST(EventLoopTest, TimersRunInOrderOfDueTimeNeverEarlyAndNotWhenCancelled) {
  auto loops = Start(1);
  std::latch done(1);
  std::vector<int> order;
  loops->at(0).Post([&] {
    EventLoop& loop = loops->at(0);
    const int64_t start = base::Clock::Real().NowNs();
    auto at = [&, start](int ms) {
      return loop.After(ms * base::kNsPerMs, [&, ms, start] {
        EXPECT_GE(base::Clock::Real().NowNs() - start, ms * base::kNsPerMs);
        order.push_back(ms);
      });
    };
    at(30);
    at(10);
    const auto cancelled = at(20);
    at(0);
    loop.CancelTimer(cancelled);
    loop.CancelTimer(cancelled);
    loop.CancelTimer(123456);
    loop.After(40 * base::kNsPerMs, [&] { done.count_down(); });
  });
  done.wait();
  EXPECT_EQ(order, (std::vector<int>{0, 10, 30}));
}

TEST(EventLoopTest, ManyCancelledTimersDoNotAccumulate) {
  auto loops = Start(1);
  std::latch done(1);
  loops->at(0).Post([&] {
    for (int i = 0; i < 100000; ++i)
      loops->at(0).CancelTimer(loops->at(0).After(base::kNsPerSecond * 1000, [] { FAIL(); }));
    loops->at(0).After(0, [&] { done.count_down(); });
  });
  done.wait();
}

TEST(EventLoopTest, DescriptorEventsModifyAndRemove) {
  auto loops = Start(1);
  EventLoop& loop = loops->at(0);
  Pipe pipe;
  std::latch twice(2);
  std::atomic<int> calls{0};
  loop.Post([&] {
    ASSERT_TRUE(loop.Add(pipe.fds[0], EPOLLIN,
                         [&](uint32_t events) {
                           EXPECT_TRUE(events & EPOLLIN);
                           pipe.Take();
                           ++calls;
                           twice.count_down();
                           if (calls == 2) loop.Remove(pipe.fds[0]);  // its own handler is running
                         })
                    .ok());
  });
  pipe.Put();
  pipe.Put();
  twice.wait();
  pipe.Put();
  loops->RunOnAll([](EventLoop&) {});
  loops->RunOnAll([](EventLoop&) {});
  EXPECT_EQ(calls, 2);
  loops->RunOnAll(
      [&](EventLoop&) { EXPECT_TRUE(loop.Add(pipe.fds[0], 0, [&](uint32_t) { ++calls; }).ok()); });
  loops->RunOnAll([](EventLoop&) {});
  EXPECT_EQ(calls, 2);
  std::latch third(1);
  loops->RunOnAll([&](EventLoop&) {
    loop.Remove(pipe.fds[0]);
    EXPECT_TRUE(loop.Add(pipe.fds[0], EPOLLIN,
                         [&](uint32_t) {
                           pipe.Take();
                           third.count_down();
                         })
                    .ok());
  });
  third.wait();
  EXPECT_FALSE(loop.Add(100000, EPOLLIN, [](uint32_t) {}).ok());
}

// Two descriptors are ready in one round; the first handler replaces the second one's descriptor
// by another with the same number. The stale event must not reach the newcomer.
TEST(EventLoopTest, StaleEventOfAReusedDescriptorIsDropped) {
  auto loop = std::move(EventLoop::Make(0)).value();
  Pipe a;
  Pipe b;
  Pipe fresh;
  int stale = 0;
  int replaced = 0;
  auto replace = [&](int mine, int other) {
    return [&, mine, other](uint32_t) {
      ++replaced;
      loop->Remove(mine);
      loop->Remove(other);
      ASSERT_EQ(dup2(fresh.fds[0], other), other);
      ASSERT_TRUE(loop->Add(other, EPOLLIN, [&](uint32_t) { ++stale; }).ok());
      loop->Stop();
    };
  };
  ASSERT_TRUE(loop->Add(a.fds[0], EPOLLIN, replace(a.fds[0], b.fds[0])).ok());
  ASSERT_TRUE(loop->Add(b.fds[0], EPOLLIN, replace(b.fds[0], a.fds[0])).ok());
  a.Put();
  b.Put();
  loop->Run();
  EXPECT_EQ(replaced, 1);
  EXPECT_EQ(stale, 0);
}

TEST(EventLoopTest, RunOnAllReachesEveryLoopAndWorksAfterStop) {
  auto loops = Start(3);
  std::atomic<int> mask{0};
  loops->RunOnAll([&](EventLoop& loop) {
    EXPECT_TRUE(loop.InLoopThread());
    mask |= 1 << loop.index();
  });
  EXPECT_EQ(mask, 7);
  loops->Stop();
  loops->Stop();
  loops->RunOnAll([&](EventLoop& loop) { mask &= ~(1 << loop.index()); });
  EXPECT_EQ(mask, 0);
}

TEST(EventLoopTest, UnrunTasksAreReleasedWithTheLoop) {
  auto held = std::make_shared<int>(1);
  {
    auto loop = std::move(EventLoop::Make(0)).value();
    loop->Post([held] {});
    loop->After(1, [held] {});
    EXPECT_EQ(held.use_count(), 3);
  }
  EXPECT_EQ(held.use_count(), 1);
}

}  // namespace
}  // namespace stoker::net
