// The executor: every accepted task runs once, the queue is bounded, shutdown drains.
#include <stoker/base/executor.h>

#include <pthread.h>

#include <atomic>
#include <latch>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace stoker::base {
namespace {

TEST(ExecutorTest, RunsEveryTaskOnceFromManyThreads) {
  std::vector<std::atomic<int>> runs(4000);
  {
    Executor executor({.name = "test", .threads = 3});
    std::vector<std::thread> senders;
    for (size_t sender = 0; sender < 4; ++sender) {
      senders.emplace_back([&, sender] {
        for (size_t i = sender; i < runs.size(); i += 4) {
          EXPECT_TRUE(executor.Submit([&runs, i] { ++runs[i]; }).ok());
        }
      });
    }
    for (std::thread& sender : senders) sender.join();
  }
  for (const auto& count : runs) EXPECT_EQ(count, 1);
}

TEST(ExecutorTest, OneThreadKeepsTheOrder) {
  std::vector<int> order;
  {
    Executor executor({.threads = 1});
    for (int i = 0; i < 100; ++i) ASSERT_TRUE(executor.Submit([&order, i] { order.push_back(i); }).ok());
  }
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
}

TEST(ExecutorTest, QueueIsBounded) {
  std::latch started(1), go(1);
  std::atomic<int> runs = 0;
  Executor executor({.name = "small", .threads = 1, .queue_limit = 2});
  ASSERT_TRUE(executor
                  .Submit([&] {
                    started.count_down();
                    go.wait();
                    ++runs;
                  })
                  .ok());
  started.wait();
  EXPECT_TRUE(executor.Submit([&] { ++runs; }).ok());
  EXPECT_TRUE(executor.Submit([&] { ++runs; }).ok());
  EXPECT_EQ(executor.queued(), 2u);
  const Status refused = executor.Submit([&] { runs += 100; });
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(refused.message(), "Exceeds maximum queue size: small holds 2 waiting tasks already");
  go.count_down();
  executor.Shutdown();
  EXPECT_EQ(runs, 3);
  EXPECT_EQ(executor.Submit([] {}).code(), StatusCode::kUnavailable);
  executor.Shutdown();
}

TEST(ExecutorTest, ThreadsCarryTheName) {
  char name[16] = {};
  {
    Executor executor({.name = "a-rather-long-name"});
    ASSERT_TRUE(executor.Submit([&name] { pthread_getname_np(pthread_self(), name, sizeof(name)); }).ok());
  }
  EXPECT_STREQ(name, "a-rather-long-n");
}

}  // namespace
}  // namespace stoker::base
