// The rules of dynamic batching as scripts (batcher_script.h): forming batches, shapes, priorities,
// cancellation, configuration.

#include "testing/batcher_script.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <stoker/batching/dynamic.h>

namespace stoker::batching {
namespace {

// --- Forming batches -----------------------------------------------------------------------------

TEST(DynamicBatcherTest, EmptyQueueHasNothingToRun) {
  RunScript(Batching(4), {{"next", "nothing"}, {"poll", "nothing"}});
}

TEST(DynamicBatcherTest, WithoutDelayAnInstanceTakesWhatIsThere) {
  RunScript(Batching(4), {{"add 1"}, {"next", "slot_free 1"}, {"next", "nothing"}});
}

// server#3624: the batch stayed at 1 although requests waited.
TEST(DynamicBatcherTest, LateGrowthMergesAllThatWaitWhenAnInstanceFreesItself) {
  RunScript(Batching(8), {{"add 1"},
                          {"next", "slot_free 1"},
                          {"at 1 add 2"},
                          {"at 2 add 3 rows=3"},
                          {"at 3 add 4"},
                          {"at 9 next", "slot_free 2,3,4"}});
}

TEST(DynamicBatcherTest, StopsAtMaxBatchSizeWithoutSkippingAhead) {
  RunScript(Batching(4),
            {{"add 1 rows=3"}, {"add 2 rows=2"}, {"add 3"}, {"next", "full 1"}, {"next", "slot_free 2,3"}});
}

TEST(DynamicBatcherTest, FullBatchDoesNotWaitForTheDelay) {
  RunScript(Batching(4, 100), {{"add 1 rows=3"}, {"next", "wake 100"}, {"at 1 add 2"}, {"next", "full 1,2"}});
}

TEST(DynamicBatcherTest, DelayIsKeptExactly) {
  RunScript(Batching(4, 100), {{"at 5 add 1"},
                               {"next", "wake 105"},
                               {"at 50 add 2"},
                               {"next", "wake 105"},
                               {"at 104.999999 next", "wake 105"},
                               {"at 105 next", "delay 1,2"},
                               {"next", "nothing"}});
}

// The batch model of the peers' repository: preferred 4, delay 500 ms.
TEST(DynamicBatcherTest, FourSinglesOrTwoPairsFormAPreferredBatch) {
  const DynamicConfig config = Batching(4, 500, {4});
  RunScript(config,
            {{"add 1"}, {"add 2"}, {"add 3"}, {"next", "wake 500"}, {"add 4"}, {"next", "full 1,2,3,4"}});
  RunScript(config, {{"add 1 rows=2"}, {"next", "wake 500"}, {"at 1 add 2 rows=2"}, {"next", "full 1,2"}});
}

TEST(DynamicBatcherTest, ThreeAndTwoGoApartAsSoonAsTheSecondOverflows) {
  for (int64_t max : {4, 8}) {
    RunScript(Batching(max, 500, {4}), {{"add 1 rows=3"},
                                        {"next", "wake 500"},
                                        {"at 10 add 2 rows=2"},
                                        {"next", max == 4 ? "full 1" : "preferred 1"},
                                        {"next", "wake 510"},
                                        {"at 510 next", "delay 2"}});
  }
}

TEST(DynamicBatcherTest, PreferredSizeIsSentExactlyUntilTheDelayIsOver) {
  const std::vector<Step> adds = {{"add 1"}, {"add 2"}, {"add 3"}, {"add 4"}, {"add 5"}};
  std::vector<Step> steps = adds;
  steps.push_back({"next", "preferred 1,2,3,4"});
  steps.push_back({"next", "wake 100"});
  RunScript(Batching(8, 100, {2, 4}), steps);
  steps = adds;
  steps.push_back({"at 100 next", "delay 1,2,3,4,5"});
  RunScript(Batching(8, 100, {2, 4}), steps);
}

TEST(DynamicBatcherTest, RequestLargerThanEveryPreferredSizeRunsAtOnce) {
  RunScript(Batching(8, 100, {4}), {{"add 1 rows=5"}, {"next", "preferred 1"}});
}

TEST(DynamicBatcherTest, PreferredSizeWithoutDelayClosesTheBatch) {
  RunScript(Batching(8, 0, {4}), {{"add 1"},
                                  {"add 2"},
                                  {"add 3"},
                                  {"add 4"},
                                  {"add 5"},
                                  {"next", "preferred 1,2,3,4"},
                                  {"next", "slot_free 5"}});
}

TEST(DynamicBatcherTest, UnmetPreferredSizesStillWaitForTheDelay) {
  RunScript(Batching(16, 100, {4, 16}),
            {{"add 1 rows=3"}, {"add 2 rows=2"}, {"next", "wake 100"}, {"at 100 next", "delay 1,2"}});
}

TEST(DynamicBatcherTest, EveryRequestRunsAloneWithoutBatching) {
  DynamicConfig off = Batching(8, 100, {4});
  off.batching = false;
  RunScript(
      off,
      {{"add 1 rows=2"}, {"add 2"}, {"next", "unbatched 1"}, {"next", "unbatched 2"}, {"next", "nothing"}});
  RunScript(Batching(0, 100),
            {{"add 1 rows=0"}, {"add 2 rows=77"}, {"next", "unbatched 1"}, {"next", "unbatched 2"}});
}

TEST(DynamicBatcherTest, NeverSlowerThanWithoutBatching) {
  // With delay 0 an instance that asks while somebody waits always gets work, whatever else is configured.
  for (const DynamicConfig& config : {Batching(8), Batching(8, 0, {8}), Batching(8, 0, {3, 7})}) {
    RunScript(config, {{"add 1 rows=5"}, {"next", "slot_free 1"}, {"add 2"}, {"next", "slot_free 2"}});
  }
}

// --- Shapes --------------------------------------------------------------------------------------

TEST(DynamicBatcherTest, AlternatingShapesStillFillBatches) {
  const std::vector<Step> adds = {{"add 1 shape=1"}, {"add 2 shape=2"}, {"add 3 shape=1"},
                                  {"add 4 shape=2"}, {"add 5 shape=1"}, {"add 6 shape=2"}};
  std::vector<Step> steps = adds;
  steps.push_back({"next", "slot_free 1,3,5"});
  steps.push_back({"next", "slot_free 2,4,6"});
  RunScript(Batching(4), steps);
  DynamicConfig strict = Batching(4);
  strict.look_past_shapes = false;
  steps = adds;
  for (int i = 1; i <= 5; ++i) steps.push_back({"next", "shape " + std::to_string(i)});
  RunScript(strict, steps);
}

TEST(DynamicBatcherTest, FirstInLineLeadsEvenIfAnotherShapeWouldFillABatch) {
  RunScript(Batching(2), {{"add 1 shape=1"},
                          {"add 2 shape=2"},
                          {"add 3 shape=2"},
                          {"next", "slot_free 1"},
                          {"next", "full 2,3"}});
}

TEST(DynamicBatcherTest, FullShapeNeedNotWaitBehindAWaitingHead) {
  RunScript(Batching(2, 100), {{"add 1 shape=1"},
                               {"at 1 add 2 shape=2"},
                               {"next", "wake 100"},
                               {"at 2 add 3 shape=2"},
                               {"next", "full 2,3"},
                               {"next", "wake 100"},
                               {"at 100 next", "delay 1"}});
}

TEST(DynamicBatcherTest, AmongFullShapesTheFirstInLineGoesFirst) {
  RunScript(WithLevels(Batching(2, 100), 3, 3), {{"add 1 shape=1 level=1"},
                                                 {"add 2 shape=2 level=3"},
                                                 {"add 3 shape=2 level=3"},
                                                 {"add 4 shape=3 level=2"},
                                                 {"add 5 shape=3 level=2"},
                                                 {"next", "full 4,5"},
                                                 {"next", "full 2,3"},
                                                 {"next", "wake 100"}});
}

TEST(DynamicBatcherTest, WithoutLookingPastAShapeChangeEndsTheDelay) {
  DynamicConfig strict = Batching(4, 100);
  strict.look_past_shapes = false;
  RunScript(strict, {{"add 1 shape=1"},
                     {"next", "wake 100"},
                     {"at 1 add 2 shape=2"},
                     {"next", "shape 1"},
                     {"next", "wake 101"}});
}

// --- Priorities and ageing -----------------------------------------------------------------------

TEST(DynamicBatcherTest, LowerLevelNumbersComeFirst) {
  RunScript(WithLevels(Batching(1), 3, 2), {{"add 1 level=3"},
                                            {"add 2"},
                                            {"add 3 level=1"},
                                            {"add 4 level=1"},
                                            {"add 5 level=9"},
                                            {"next", "full 3"},
                                            {"next", "full 4"},
                                            {"next", "full 2"},
                                            {"next", "full 5"},
                                            {"next", "full 1"}});
}

TEST(DynamicBatcherTest, PrioritiesMeanNothingWithoutLevels) {
  RunScript(Batching(1), {{"add 1 level=3"}, {"add 2 level=1"}, {"next", "full 1"}, {"next", "full 2"}});
}

TEST(DynamicBatcherTest, ABatchMixesLevels) {
  RunScript(WithLevels(Batching(4), 2, 2),
            {{"add 1"}, {"add 2 level=1"}, {"add 3"}, {"next", "slot_free 2,1,3"}});
}

TEST(DynamicBatcherTest, LevelsMayBeAsManyAsAConfigCanSay) {
  RunScript(WithLevels(Batching(1), UINT64_MAX, UINT64_MAX),
            {{"add 1"}, {"add 2 level=1000000"}, {"next", "full 2"}, {"next", "full 1"}});
}

// Triton serves priorities strictly, so low levels can starve.
TEST(DynamicBatcherTest, LowLevelsDoNotStarve) {
  auto batcher = DynamicBatcher::Make(WithLevels(Batching(1), 2, 2));
  ASSERT_TRUE(batcher.ok());
  ASSERT_TRUE(batcher->Enqueue({.ticket = 1, .priority = 2}, 0).ok());
  Decision decision;
  Ticket next = 2;
  int64_t now = 0;
  for (; now < 10'000 * kMs; now += 100 * kMs) {  // Short queues: strict.
    ASSERT_TRUE(batcher->Enqueue({.ticket = next++, .priority = 1}, now).ok());
    batcher->Next(now, &decision);
    ASSERT_NE(decision.plan.tickets, std::vector<Ticket>{1});
  }
  int plans = 0;
  do {
    ASSERT_TRUE(batcher->Enqueue({.ticket = next++, .priority = 1}, now).ok());
    batcher->Next(now, &decision);
    ++plans;
  } while (decision.plan.tickets != std::vector<Ticket>{1} && plans < 100);
  EXPECT_EQ(plans, DynamicBatcher::kAgedShare);
  EXPECT_TRUE(decision.plan.led_by_aged);
}

TEST(DynamicBatcherTest, AgeingCanBeSwitchedOff) {
  DynamicConfig config = WithLevels(Batching(1), 2, 2);
  config.ageing_limit_ns = 0;
  std::vector<Step> steps = {{"add 1000"}};
  for (int i = 0; i < 50; ++i) {
    steps.push_back({"at 100000 add " + std::to_string(i) + " level=1"});
    steps.push_back({"next", "full " + std::to_string(i)});
  }
  RunScript(config, steps);
}

// --- Cancellation, drain, mistakes of the caller ------------------------------------------------

TEST(DynamicBatcherTest, CancelledRequestsAreGone) {
  RunScript(Batching(4), {{"add 1"},
                          {"add 2"},
                          {"add 3"},
                          {"cancel 2"},
                          {"cancel 2", "not queued"},
                          {"next", "slot_free 1,3"},
                          {"cancel 1", "not queued"},
                          {"cancel 99", "not queued"}});
}

TEST(DynamicBatcherTest, DrainEmptiesInOrderOfArrival) {
  auto batcher = DynamicBatcher::Make(
      WithPolicy(WithLevels(Batching(4), 2, 2), {.default_timeout_ns = 5, .max_queue_size = 2}));
  ASSERT_TRUE(batcher.ok());
  ASSERT_TRUE(batcher->Enqueue({.ticket = 7}, 0).ok());
  ASSERT_TRUE(batcher->Enqueue({.ticket = 5}, 3).ok());
  ASSERT_TRUE(batcher->Enqueue({.ticket = 6, .priority = 1}, 4).ok());
  ASSERT_TRUE(batcher->Enqueue({.ticket = 8}, 5).ok()) << "7 has expired";
  EXPECT_EQ(batcher->queued_requests(), 3u);
  EXPECT_EQ(batcher->DrainAll(), (std::vector<Ticket>{7, 5, 6, 8}));
  EXPECT_EQ(batcher->queued_requests(), 0u);
  EXPECT_EQ(batcher->queued_rows(), 0);
}

TEST(DynamicBatcherTest, RefusesWhatCannotBeQueued) {
  RunScript(Batching(4), {{"add 1 rows=0", "INVALID_ARGUMENT"},
                          {"add 1 rows=5", "INVALID_ARGUMENT"},
                          {"add 1"},
                          {"add 1", "ALREADY_EXISTS"},
                          {"next", "slot_free 1"},
                          {"add 1"}});
}

TEST(DynamicBatcherTest, TimeThatRunsBackwardsCountsAsTheLatest) {
  RunScript(Batching(4, 10),
            {{"at 20 add 1"}, {"at 5 add 2"}, {"next", "wake 30"}, {"at 30 next", "delay 1,2"}});
}

// --- Configuration -------------------------------------------------------------------------------

TEST(DynamicConfigTest, NamesWhatIsWrong) {
  const auto text = [](const DynamicConfig& config) { return ValidateDynamicConfig(config).message(); };
  const auto has = [&](const DynamicConfig& config, const char* part) {
    EXPECT_NE(text(config).find(part), std::string::npos) << "got: " << text(config) << "\nwant: " << part;
  };
  EXPECT_TRUE(ValidateDynamicConfig(Batching(8, 5, {4, 8})).ok());
  has(Batching(8, 0, {9}), "preferred_batch_size is 9");
  has(Batching(8, 0, {0}), "preferred_batch_size is 0");
  has(Batching(-1), "max_batch_size is -1");
  has(Batching(int64_t{1} << 40), "max_batch_size");
  has(Batching(8, -1), "max_queue_delay_microseconds");
  has(WithLevels(Batching(8), 2, 0), "default_priority_level is 0");
  has(WithLevels(Batching(8), 2, 3), "default_priority_level is 3");
  DynamicConfig config = WithLevels(Batching(8), 2, 1);
  config.level_policies[3] = {};
  has(config, "level 3");
  config = WithLevels(Batching(8), 2, 1);
  config.preserve_ordering = true;
  has(config, "preserve_ordering");
  config = WithPolicy(Batching(8), {.delay_on_timeout = true});
  config.preserve_ordering = true;
  has(config, "DELAY");
  has(WithPolicy(Batching(8), {.default_timeout_ns = -1}), "default_timeout_microseconds");
  has(WithPolicy(Batching(8), {.max_queue_size = -1}), "max_queue_size");
  config = Batching(8);
  config.queue_cap_requests = 0;
  has(config, "at least 1");
}

}  // namespace
}  // namespace stoker::batching
