// Aim: every request gets its own answer exactly once, whatever happens around it, and Triton's rules of
// queueing hold. Method: an engine that is held and let go by the test, so that who waits and who runs is
// known; and storms of random requests from several threads, each answer compared with its request.
#include <atomic>
#include <deque>
#include <thread>

#include <stoker/base/rng.h>
#include <stoker/base/testing/random_seed.h>
#include <stoker/base/thread.h>
#include <stoker/engines/engines.h>

#include "host_fixture.h"

namespace stoker::host {
namespace {

constexpr std::string_view kTensors = R"(
  backend: "test"
  input [ { name: "IN" data_type: TYPE_FP32 dims: [ -1 ] } ]
  output [ { name: "OUT" data_type: TYPE_FP32 dims: [ -1 ] } ])";

class SchedulingTest : public HostTest {
 protected:
  void Serve(std::string_view rest, std::string_view tensors = kTensors) {
    AddModel("m", base::StrCat(tensors, rest));
    StartHost();
  }
  static std::vector<InferInput> Row(float value) { return {FloatInput("IN", {1, 1}, value)}; }
  void Submit(float value, std::function<void(InferRequest*)> change = nullptr) {
    auto request = NewRequest("m", Row(value));
    if (change) change(request.get());
    host().Submit(std::move(request), inbox_.NewSink());
  }
  std::vector<Answer> Answers(size_t count) {
    inbox_.WaitFor(count);
    return inbox_.Take();
  }
  // Holds the engine and gives it one request, so that what follows waits.
  void Occupy() {
    engine_.HoldRuns(true);
    Submit(0);
    engine_.WaitForRuns(1);
  }
  static std::string Text(float value) { return {reinterpret_cast<const char*>(&value), sizeof(value)}; }
  ModelStatistics Counts() { return host().Statistics("m", "").value().at(0); }

  Inbox inbox_;
};

TEST_F(SchedulingTest, WhatWaitsFormsTheNextBatch) {
  Serve("max_batch_size: 8 instance_group [ { count: 1 kind: KIND_CPU } ] dynamic_batching {}");
  Occupy();
  for (int i = 1; i <= 5; ++i) Submit(static_cast<float>(i));
  EXPECT_EQ(inbox_.size(), 0u);
  engine_.HoldRuns(false);
  const auto answers = Answers(6);
  ASSERT_EQ(engine_.runs().size(), 2u);
  EXPECT_EQ(engine_.runs()[1].rows, 5);
  for (size_t i = 0; i < 6; ++i) {
    ASSERT_TRUE(answers[i].status.ok());
    EXPECT_EQ(answers[i].outputs.at(0).tensor.bytes.text(), Text(static_cast<float>(i)));
  }
  EXPECT_EQ(answers[5].timing.batch_rows, 5);
}

TEST_F(SchedulingTest, WithoutDynamicBatchingEachRunsAlone) {
  Serve("max_batch_size: 8 instance_group [ { count: 1 kind: KIND_CPU } ]");
  Occupy();
  for (int i = 1; i <= 3; ++i) Submit(static_cast<float>(i));
  engine_.HoldRuns(false);
  Answers(4);
  EXPECT_EQ(engine_.runs().size(), 4u);
}

TEST_F(SchedulingTest, InstancesRunSideBySide) {
  Serve("max_batch_size: 1 instance_group [ { count: 3 kind: KIND_CPU } ]");
  engine_.HoldRuns(true);
  for (int i = 0; i < 5; ++i) Submit(static_cast<float>(i));
  engine_.WaitForRuns(3);
  EXPECT_EQ(engine_.most_at_once(), 3u);
  engine_.HoldRuns(false);
  Answers(5);
  EXPECT_EQ(engine_.most_at_once(), 3u);
}

TEST_F(SchedulingTest, AFullQueueRefusesAndCounts) {
  Serve(
      "max_batch_size: 1 instance_group [ { count: 1 kind: KIND_CPU } ] "
      "dynamic_batching { default_queue_policy { max_queue_size: 2 } }");
  Occupy();
  Submit(1);
  Submit(2);
  Submit(3);
  const auto refused = Answers(1);
  EXPECT_EQ(refused[0].status.code(), base::StatusCode::kUnavailable);
  EXPECT_NE(refused[0].status.message().find("Exceeds maximum queue size"), std::string::npos);
  EXPECT_NE(Metrics().find(R"(nv_inference_request_failure{model="m",version="1",reason="REJECTED"} 1)"),
            std::string::npos);
  EXPECT_NE(Metrics().find(R"(nv_inference_pending_request_count{model="m",version="1"} 2)"),
            std::string::npos);
  engine_.HoldRuns(false);
  Answers(3);
  EXPECT_EQ(Counts().fail.count, 1u);
  EXPECT_EQ(Counts().success.count, 3u);
}

TEST_F(SchedulingTest, ATimeoutEndsTheWaitWhileTheInstanceIsBusy) {
  Serve(
      "max_batch_size: 1 instance_group [ { count: 1 kind: KIND_CPU } ] dynamic_batching { "
      "default_queue_policy { "
      "default_timeout_microseconds: 60000000 allow_timeout_override: true } }");
  Occupy();
  Submit(1, [](InferRequest* request) { request->timeout_us = 1000; });
  const auto expired = Answers(1);
  EXPECT_EQ(expired[0].status.code(), base::StatusCode::kUnavailable);
  EXPECT_NE(expired[0].status.message().find("Request timeout expired"), std::string::npos);
  engine_.HoldRuns(false);
  EXPECT_TRUE(Answers(1)[0].status.ok());
  EXPECT_EQ(engine_.runs().size(), 1u);
}

TEST_F(SchedulingTest, ADeadlineEndsTheWaitToo) {
  Serve("max_batch_size: 1 instance_group [ { count: 1 kind: KIND_CPU } ]");
  Occupy();
  Submit(1, [](InferRequest* request) { request->deadline_ns = base::Clock::Real().NowNs() + 1'000'000; });
  EXPECT_EQ(Answers(1)[0].status.code(), base::StatusCode::kDeadlineExceeded);
  engine_.HoldRuns(false);
  Answers(1);
}

TEST_F(SchedulingTest, ADelayIsEndedByThePreferredSizeOrByTheTimer) {
  Serve(
      "max_batch_size: 8 instance_group [ { count: 1 kind: KIND_CPU } ] "
      "dynamic_batching { preferred_batch_size: [ 4 ] max_queue_delay_microseconds: 20000 }");
  Submit(1);  // waits out the delay, alone
  EXPECT_EQ(Answers(1)[0].timing.batch_rows, 1);
  for (int i = 0; i < 4; ++i) Submit(static_cast<float>(i));
  for (const Answer& answer : Answers(4)) EXPECT_TRUE(answer.status.ok());
  int64_t rows = 0;
  for (const auto& run : engine_.runs()) rows += run.rows;
  EXPECT_EQ(rows, 5);
  EXPECT_NE(Metrics().find(R"(stoker_batch_closed_total{model="m",version="1",reason="delay"})"),
            std::string::npos);
}

TEST_F(SchedulingTest, HigherPrioritiesRunFirst) {
  Serve(
      "max_batch_size: 1 instance_group [ { count: 1 kind: KIND_CPU } ] "
      "dynamic_batching { priority_levels: 2 default_priority_level: 2 }");
  Occupy();
  Submit(1, [](InferRequest* request) { request->priority = 2; });
  Submit(2);
  Submit(3, [](InferRequest* request) { request->priority = 1; });
  engine_.HoldRuns(false);
  const auto answers = Answers(4);
  const float order[] = {0, 3, 1, 2};
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(answers[i].outputs.at(0).tensor.bytes.text(), Text(order[i]));
}

TEST_F(SchedulingTest, CancellingAQueuedRequestAnswersItAtOnce) {
  Serve("max_batch_size: 1 instance_group [ { count: 1 kind: KIND_CPU } ]");
  Occupy();
  const auto cancellation = std::make_shared<Cancellation>();
  Submit(1, [&](InferRequest* request) { request->cancellation = cancellation; });
  cancellation->Cancel();
  ASSERT_EQ(inbox_.size(), 1u) << "the answer must be there when Cancel returns";
  EXPECT_EQ(inbox_.Take()[0].status.code(), base::StatusCode::kCancelled);
  cancellation->Cancel();
  engine_.HoldRuns(false);
  EXPECT_TRUE(Answers(1)[0].status.ok());
  EXPECT_EQ(engine_.runs().size(), 1u);
  EXPECT_NE(Metrics().find(R"(reason="CANCELED"} 1)"), std::string::npos);
}

TEST_F(SchedulingTest, CancellingARunningRequestDropsItsAnswer) {
  Serve("max_batch_size: 1 instance_group [ { count: 1 kind: KIND_CPU } ]");
  engine_.HoldRuns(true);
  const auto cancellation = std::make_shared<Cancellation>();
  Submit(1, [&](InferRequest* request) { request->cancellation = cancellation; });
  engine_.WaitForRuns(1);
  cancellation->Cancel();
  EXPECT_EQ(Answers(1)[0].status.code(), base::StatusCode::kCancelled);
  engine_.HoldRuns(false);
  Submit(2);
  EXPECT_TRUE(Answers(1)[0].status.ok());
  WaitUntilIdle();
}

TEST_F(SchedulingTest, ACancelledRequestIsNotTakenAtAll) {
  Serve("max_batch_size: 1");
  const auto cancellation = std::make_shared<Cancellation>();
  cancellation->Cancel();
  Submit(1, [&](InferRequest* request) { request->cancellation = cancellation; });
  EXPECT_EQ(Answers(1)[0].status.code(), base::StatusCode::kCancelled);
  EXPECT_TRUE(engine_.runs().empty());
}

// Random requests from several threads; a quarter of them is cancelled by another thread.
TEST_F(SchedulingTest, StormsOfRequestsAndCancellations) {
  Serve(
      "max_batch_size: 8 instance_group [ { count: 2 kind: KIND_CPU } ] "
      "dynamic_batching { max_queue_delay_microseconds: 50 }");
  const uint64_t seed = base::testing::RandomSeed();
  constexpr size_t kThreads = 4;
  constexpr size_t kEach = 1500;
  std::atomic<size_t> wrong{0}, cancelled{0}, right{0};
  base::Mutex mutex;
  std::deque<std::shared_ptr<Cancellation>> to_cancel;
  std::atomic<bool> done{false};
  base::Thread canceller("cancel", [&] {
    while (!done.load()) {
      std::shared_ptr<Cancellation> next;
      {
        base::MutexLock lock(&mutex);
        if (!to_cancel.empty()) {
          next = std::move(to_cancel.front());
          to_cancel.pop_front();
        }
      }
      if (next)
        next->Cancel();
      else
        std::this_thread::yield();
    }
  });
  std::vector<base::Thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back("submit", [&, t] {
      base::Rng rng(seed, t);
      for (size_t i = 0; i < kEach; ++i) {
        const tensor::Shape shape{1 + static_cast<int64_t>(rng.Below(8)),
                                  1 + static_cast<int64_t>(rng.Below(3))};
        InferInput input = FloatInput("IN", shape, static_cast<float>(rng.Below(100'000)));
        const std::string wanted(input.tensor.bytes.text());
        auto request = NewRequest("m", {input});
        if (rng.Below(4) == 0) {
          request->cancellation = std::make_shared<Cancellation>();
          base::MutexLock lock(&mutex);
          to_cancel.push_back(request->cancellation);
        }
        host().Submit(std::move(request), inbox_.NewSink([&, wanted, shape](InferResponse response) {
          if (response.status.code() == base::StatusCode::kCancelled) {
            ++cancelled;
          } else if (response.status.ok() && response.outputs.size() == 1 &&
                     response.outputs[0].tensor.shape == shape &&
                     response.outputs[0].tensor.bytes.text() == wanted) {
            ++right;
          } else {
            ++wrong;
          }
        }));
      }
    });
  }
  threads.clear();
  inbox_.WaitFor(kThreads * kEach);
  done = true;
  canceller.Join();
  EXPECT_EQ(wrong.load(), 0u);
  EXPECT_EQ(right + cancelled, kThreads * kEach);
  const ModelStatistics counts = Counts();
  EXPECT_EQ(counts.success.count, right.load());
  EXPECT_LE(counts.fail.count, cancelled.load());  // those cancelled before they came are not counted
  WaitUntilIdle();
  EXPECT_NE(Metrics().find(R"(nv_inference_pending_request_count{model="m",version="1"} 0)"),
            std::string::npos);
  uint64_t executions = 0;
  for (const BatchStatistic& batch : counts.batches) executions += batch.compute_infer.count;
  EXPECT_EQ(executions, counts.execution_count);
}

// The fake engine sums rows, so an answer made of somebody else's row shows.
TEST_F(SchedulingTest, TheFakeEnginesSumsAreTheRequestsOwn) {
  AddModel("sums", R"(backend: "stoker_fake" max_batch_size: 16
    input [ { name: "A" data_type: TYPE_FP32 dims: [ 4 ] }, { name: "B" data_type: TYPE_FP32 dims: [ -1 ] } ]
    output [ { name: "S" data_type: TYPE_FP32 dims: [ 2 ] } ]
    instance_group [ { count: 2 kind: KIND_CPU } ] dynamic_batching {}
    parameters { key: "stoker.cost_per_row_us" value: { string_value: "20" } })");
  StartHost();
  const uint64_t seed = base::testing::RandomSeed();
  constexpr size_t kEach = 700;
  std::atomic<size_t> right{0};
  std::vector<base::Thread> threads;
  for (size_t t = 0; t < 3; ++t) {
    threads.emplace_back("submit", [&, t] {
      base::Rng rng(seed, t);
      for (size_t i = 0; i < kEach; ++i) {
        const float a = static_cast<float>(rng.Below(1000));
        const float b = static_cast<float>(rng.Below(1000));
        const auto width = static_cast<int64_t>(1 + rng.Below(3));
        double sum_b = 0;
        for (int64_t k = 0; k < width; ++k) sum_b += static_cast<double>(b) + static_cast<double>(k);
        const std::vector<double> sums = {4 * static_cast<double>(a) + 6, sum_b};
        const std::string wanted = Text(static_cast<float>(engines::ExpectedFakeValue(1, 0, sums))) +
                                   Text(static_cast<float>(engines::ExpectedFakeValue(1, 1, sums)));
        host().Submit(NewRequest("sums", {FloatInput("B", {1, width}, b), FloatInput("A", {1, 4}, a)}),
                      inbox_.NewSink([&, wanted](InferResponse response) {
                        if (response.status.ok() && response.outputs[0].tensor.bytes.text() == wanted)
                          ++right;
                      }));
      }
    });
  }
  threads.clear();
  inbox_.WaitFor(3 * kEach);
  EXPECT_EQ(right.load(), 3 * kEach);
}

TEST_F(SchedulingTest, OrderIsPreservedAcrossInstances) {
  AddModel("m", R"(backend: "stoker_fake" max_batch_size: 4
    input [ { name: "IN" data_type: TYPE_FP32 dims: [ 1 ] } ] output [ { name: "OUT" data_type: TYPE_FP32 dims: [ 1 ] } ]
    instance_group [ { count: 3 kind: KIND_CPU } ] dynamic_batching { preserve_ordering: true }
    parameters { key: "stoker.cost_per_row_us" value: { string_value: "100" } })");
  StartHost();
  const uint64_t seed = base::testing::RandomSeed();
  base::Rng rng(seed);
  constexpr int kCount = 600;
  base::Mutex mutex;
  std::vector<int> order;
  for (int i = 0; i < kCount; ++i) {
    const auto rows = static_cast<int64_t>(1 + rng.Below(4));
    auto request = NewRequest("m", {FloatInput("IN", {rows, 1}, 1)});
    if (rng.Below(10) == 0) request->cancellation = std::make_shared<Cancellation>();
    const auto cancellation = request->cancellation;
    host().Submit(std::move(request), inbox_.NewSink([&, i](const InferResponse& response) {
      base::MutexLock lock(&mutex);
      if (response.status.ok()) order.push_back(i);
    }));
    if (cancellation != nullptr) cancellation->Cancel();
  }
  inbox_.WaitFor(kCount);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  EXPECT_GE(order.size(), static_cast<size_t>(kCount / 2));
}

TEST_F(SchedulingTest, ShortRunsStayOnTheSubmittingThreadWhileMeasurementSaysSo) {
  clock_ = &manual_clock_;
  engine_.RunInline(&manual_clock_);
  engine_.SetCost(2'000);
  Serve("max_batch_size: 4");
  std::atomic<std::thread::id> ran{};
  const auto submit = [&] {
    host().Submit(NewRequest("m", Row(1)),
                  inbox_.NewSink([&](InferResponse) { ran = std::this_thread::get_id(); }));
    Answers(1);
    return ran.load() == std::this_thread::get_id();
  };
  EXPECT_TRUE(submit());
  EXPECT_TRUE((*host().Find("m", ""))->runs_inline());
  engine_.SetCost(300'000);
  int tries = 0;
  while (submit()) ASSERT_LT(++tries, 200) << "slow runs must leave the receiving thread";
  EXPECT_FALSE((*host().Find("m", ""))->runs_inline()) << "there is something to cancel now";
  engine_.SetCost(2'000);
  tries = 0;
  while (!submit()) ASSERT_LT(++tries, 1000) << "short ones must come back";
  host_.reset();
}

TEST_F(SchedulingTest, DrainAnswersEverybody) {
  Serve("max_batch_size: 1 instance_group [ { count: 1 kind: KIND_CPU } ]");
  Occupy();
  Submit(1);
  Submit(2);
  host().BeginShutdown();
  EXPECT_FALSE(host().ready());
  Submit(3);  // still taken
  const base::Status drained = host().Drain(base::Clock::Real().NowNs() + 20'000'000);
  EXPECT_EQ(drained.code(), base::StatusCode::kDeadlineExceeded);
  ASSERT_EQ(inbox_.size(), 4u);
  for (const Answer& answer : inbox_.Take()) EXPECT_EQ(answer.status.code(), base::StatusCode::kUnavailable);
  Submit(4);
  EXPECT_EQ(Answers(1)[0].status.code(), base::StatusCode::kUnavailable);
  WaitUntilIdle();
  engine_.HoldRuns(false);
}

TEST_F(SchedulingTest, DrainWaitsForWhatCanFinish) {
  Serve("max_batch_size: 1 instance_group [ { count: 1 kind: KIND_CPU } ]");
  Occupy();
  Submit(1);
  base::Thread release("release", [this] { engine_.HoldRuns(false); });
  EXPECT_TRUE(host().Drain(base::Clock::Real().NowNs() + 60 * base::kNsPerSecond).ok());
  ASSERT_EQ(inbox_.size(), 2u);
  for (const Answer& answer : inbox_.Take()) EXPECT_TRUE(answer.status.ok());
}

TEST_F(SchedulingTest, DrainAnswersHeldOnesOfAnOrderedModel) {
  Serve(
      "max_batch_size: 1 instance_group [ { count: 2 kind: KIND_CPU } ] dynamic_batching { "
      "preserve_ordering: true }");
  engine_.HoldRuns(true);
  for (int i = 0; i < 4; ++i) Submit(static_cast<float>(i));
  engine_.WaitForRuns(2);
  EXPECT_FALSE(host().Drain(base::Clock::Real().NowNs()).ok());
  EXPECT_EQ(Answers(4).size(), 4u);
  engine_.HoldRuns(false);
}

}  // namespace
}  // namespace stoker::host
