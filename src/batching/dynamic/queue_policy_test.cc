// Queue policies, deadlines and the known faults of other servers, as scripts (batcher_script.h).

#include "testing/batcher_script.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <stoker/batching/dynamic.h>

namespace stoker::batching {
namespace {

// --- Queue policy --------------------------------------------------------------------------------

TEST(QueuePolicyTest, QueueSizeIsLimitedPerLevel) {
  RunScript(WithPolicy(WithLevels(Batching(1), 2, 2), {.max_queue_size = 2}),
            {{"add 1"},
             {"next", "full 1"},
             {"add 2"},
             {"add 3"},
             {"add 4", "UNAVAILABLE"},
             {"add 5 level=1"},
             {"add 6 level=1"},
             {"add 7 level=1", "UNAVAILABLE"},
             {"next", "full 5"},
             {"add 8", "UNAVAILABLE"},
             {"add 9 level=1"}});
}

TEST(QueuePolicyTest, RefusalSaysWhatTritonsClientsLookFor) {
  auto batcher = DynamicBatcher::Make(WithPolicy(Batching(1), {.max_queue_size = 1}));
  ASSERT_TRUE(batcher.ok());
  ASSERT_TRUE(batcher->Enqueue({.ticket = 1}, 0).ok());
  const base::Status status = batcher->Enqueue({.ticket = 2}, 0);
  EXPECT_NE(status.message().find("Exceeds maximum queue size"), std::string::npos) << status.ToString();
  const base::Status dropped = DropStatus({.ticket = 1, .waited_ns = 7 * kMs, .limit_ns = 5 * kMs});
  EXPECT_EQ(dropped.code(), base::StatusCode::kUnavailable);
  EXPECT_NE(dropped.message().find("Request timeout expired"), std::string::npos);
  EXPECT_NE(dropped.message().find("7000 us"), std::string::npos) << dropped.message();
  EXPECT_NE(dropped.message().find("5000 us"), std::string::npos) << dropped.message();
  EXPECT_EQ(DropStatus({.deadline = true}).code(), base::StatusCode::kDeadlineExceeded);
}

// Known fault: the size counter rose before a refusal and did not fall with a timeout, so it drifted.
TEST(QueuePolicyTest, QueueSizeDoesNotDrift) {
  std::vector<Step> steps;
  for (int round = 0; round < 50; ++round) {
    const std::string at = "at " + std::to_string(round * 10) + " ";
    const std::string id = std::to_string(round + 1) + "0";
    const std::string timeout_at = std::to_string(round * 10 + 5);
    steps.push_back({at + "add " + id + "1"});
    steps.push_back({"add " + id + "2"});
    steps.push_back({"add " + id + "3", "UNAVAILABLE"});
    steps.push_back({"cancel " + id + "1"});
    steps.push_back({"add " + id + "4"});
    steps.push_back({"add " + id + "5", "UNAVAILABLE"});
    steps.push_back({"at " + timeout_at + " poll", "timeout " + id + "2; timeout " + id + "4"});
  }
  RunScript(WithPolicy(Batching(4), {.default_timeout_ns = 5 * kMs, .max_queue_size = 2}), steps);
}

TEST(QueuePolicyTest, ExpiredRequestsMakeRoomBeforeTheyAreReported) {
  RunScript(WithPolicy(Batching(4), {.default_timeout_ns = 5 * kMs, .max_queue_size = 1}),
            {{"add 1"},
             {"at 4 add 2", "UNAVAILABLE"},
             {"at 5 add 2"},
             {"cancel 1", "not queued"},
             {"poll", "timeout 1; wake 10"}});
}

TEST(QueuePolicyTest, EveryQueueHasABound) {
  DynamicConfig config = Batching(4);
  config.queue_cap_requests = 3;
  config.queue_cap_rows = 6;
  RunScript(config, {{"add 1 rows=3"},
                     {"add 2 rows=4", "UNAVAILABLE"},
                     {"add 2 rows=2"},
                     {"add 3"},
                     {"add 4", "UNAVAILABLE"}});
}

TEST(QueuePolicyTest, TimeoutRejectsExactlyAtItsLimit) {
  RunScript(WithPolicy(Batching(1), {.default_timeout_ns = 50 * kMs}), {{"at 1 add 1"},
                                                                        {"poll", "wake 51"},
                                                                        {"at 50.999999 poll", "wake 51"},
                                                                        {"at 51 poll", "timeout 1"},
                                                                        {"next", "nothing"}});
}

// A request that ran in time is served even if nobody asked before: only waiting counts.
TEST(QueuePolicyTest, ExpiredRequestsAreDroppedBeforeAPlanIsMade) {
  RunScript(WithPolicy(Batching(4), {.default_timeout_ns = 50 * kMs}),
            {{"add 1"}, {"at 10 add 2"}, {"at 55 next", "timeout 1; slot_free 2"}});
}

TEST(QueuePolicyTest, OwnTimeoutCountsOnlyBelowTheDefault) {
  const QueuePolicy fixed{.default_timeout_ns = 50 * kMs};
  const QueuePolicy open{.default_timeout_ns = 50 * kMs, .allow_timeout_override = true};
  const QueuePolicy no_default{.allow_timeout_override = true};
  RunScript(WithPolicy(Batching(1), fixed), {{"add 1 timeout=20"}, {"poll", "wake 50"}});
  RunScript(WithPolicy(Batching(1), open), {{"add 1 timeout=20"}, {"poll", "wake 20"}});
  RunScript(WithPolicy(Batching(1), open), {{"add 1 timeout=80"}, {"poll", "wake 50"}});
  RunScript(WithPolicy(Batching(1), open), {{"add 1 timeout=0"}, {"poll", "wake 50"}});
  RunScript(WithPolicy(Batching(1), no_default), {{"add 1 timeout=20"}, {"poll", "nothing"}});
}

TEST(QueuePolicyTest, DelayMovesBehindThoseInTime) {
  const QueuePolicy policy{.delay_on_timeout = true,
                           .default_timeout_ns = 300 * kMs,
                           .allow_timeout_override = true,
                           .max_queue_size = 4};
  RunScript(WithPolicy(Batching(1), policy), {{"add 1 timeout=100"},
                                              {"add 2"},
                                              {"add 3 timeout=50"},
                                              {"poll", "wake 50"},
                                              {"at 100 poll", "wake 300"},
                                              {"at 120 add 4"},
                                              {"add 5", "UNAVAILABLE"},
                                              {"next", "full 2; wake 420"},
                                              {"next", "full 4"},
                                              {"next", "full 3"},
                                              {"next", "full 1"}});
}

TEST(QueuePolicyTest, DelayedRequestsComeBeforeTheNextLevel) {
  DynamicConfig config = WithLevels(Batching(1), 2, 2);
  config.level_policies[1] = {.delay_on_timeout = true, .default_timeout_ns = 10 * kMs};
  RunScript(config, {{"add 1 level=1"},
                     {"add 2"},
                     {"at 20 add 3 level=1"},
                     {"next", "full 3"},
                     {"next", "full 1"},
                     {"next", "full 2"}});
}

TEST(QueuePolicyTest, DelayedRequestsNeverExpireAgainButKeepTheirDeadline) {
  RunScript(WithPolicy(Batching(1), {.delay_on_timeout = true, .default_timeout_ns = 10 * kMs}),
            {{"add 1"},
             {"add 2 deadline=40"},
             {"at 30 poll", "wake 40"},
             {"at 40 poll", "deadline 2"},
             {"at 5000 poll", "nothing"},
             {"next", "full 1"}});
}

// server#7512: a timeout was noticed only after the run. The wake-up time is the deadline itself.
TEST(QueuePolicyTest, TimeoutShorterThanTheRunIsReportedAtItsTime) {
  RunScript(WithPolicy(Batching(1), {.default_timeout_ns = 50 * kMs}), {{"add 1"},
                                                                        {"next", "full 1"},
                                                                        {"at 10 add 2"},
                                                                        {"poll", "wake 60"},
                                                                        {"at 60 poll", "timeout 2"},
                                                                        {"at 1000 next", "nothing"}});
}

TEST(QueuePolicyTest, DeadlineDropsWithoutAnyPolicy) {
  RunScript(Batching(1), {{"at 5 add 1 deadline=5", "DEADLINE_EXCEEDED"},
                          {"add 1 deadline=6"},
                          {"poll", "wake 6"},
                          {"at 6 next", "deadline 1"}});
}

TEST(QueuePolicyTest, NobodyWaitsForCompanyUntilItIsTooLate) {
  const DynamicConfig config = WithPolicy(Batching(4, 100), {.default_timeout_ns = 40 * kMs});
  RunScript(config, {{"add 1"}, {"next", "wake 20"}, {"at 20 next", "deadline 1"}});
  RunScript(
      Batching(4, 100),
      {{"add 1"}, {"at 2 add 2 shape=7 deadline=22"}, {"next", "wake 12"}, {"at 12 next", "deadline 2"}});
  DynamicConfig like_triton = config;
  like_triton.start_before_timeout = false;
  RunScript(like_triton, {{"add 1"}, {"next", "wake 40"}, {"at 40 next", "timeout 1"}});
}

TEST(QueuePolicyTest, TimeoutsThatDelayDoNotShortenTheWaitForCompany) {
  RunScript(WithPolicy(Batching(4, 100), {.delay_on_timeout = true, .default_timeout_ns = 40 * kMs}),
            {{"add 1"}, {"next", "wake 40"}, {"at 40 next", "wake 100"}, {"at 100 next", "delay 1"}});
}

// --- Known faults --------------------------------------------------------------------------------

// A payload that failed to merge (size or shape) stayed closed and stopped growing.
TEST(QueuePolicyTest, RequestThatCouldNotJoinKeepsGrowing) {
  RunScript(
      Batching(4),
      {{"add 1 rows=3"}, {"add 2 rows=2"}, {"next", "full 1"}, {"at 1 add 3 rows=2"}, {"next", "full 2,3"}});
  RunScript(Batching(4), {{"add 1 shape=1"},
                          {"add 2 shape=2"},
                          {"next", "slot_free 1"},
                          {"at 1 add 3 shape=2"},
                          {"next", "slot_free 2,3"}});
}

// A lost wake-up could stall for 500 ms: without a plan, the time to ask again is always told.
TEST(QueuePolicyTest, NoWakeUpIsLost) {
  RunScript(WithPolicy(Batching(4, 30), {.default_timeout_ns = 500 * kMs}), {{"add 1"},
                                                                             {"next", "wake 30"},
                                                                             {"at 10 cancel 1"},
                                                                             {"next", "nothing"},
                                                                             {"at 11 add 2"},
                                                                             {"at 12 add 3"},
                                                                             {"next", "wake 41"},
                                                                             {"cancel 2"},
                                                                             {"next", "wake 42"},
                                                                             {"at 42 next", "delay 3"}});
}

}  // namespace
}  // namespace stoker::batching
