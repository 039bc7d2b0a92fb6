// The rules of dynamic batching as a table: a script of arrivals, cancellations and questions in
// virtual time (milliseconds), and the decisions that must come out, as text.

#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <stoker/batching/dynamic.h>

namespace stoker::batching {
namespace {

constexpr int64_t kMs = 1'000'000;

/// "full 1,2" for a plan, "timeout 3" for a drop, "wake 5" (ms) where one is due; joined by "; ".
std::string Text(const Decision& decision) {
  std::vector<std::string> parts;
  for (const Drop& drop : decision.drops) {
    parts.push_back((drop.deadline ? "deadline " : "timeout ") + std::to_string(drop.ticket));
  }
  if (decision.has_plan()) {
    std::string plan = std::string(decision.plan.led_by_aged ? "aged " : "") + CloseReasonName(decision.plan.reason) + " ";
    for (size_t i = 0; i < decision.plan.tickets.size(); ++i) {
      plan += (i > 0 ? "," : "") + std::to_string(decision.plan.tickets[i]);
    }
    parts.push_back(plan);
  }
  if (decision.wake_at_ns != kNever) {
    std::ostringstream wake;
    wake << "wake " << static_cast<double>(decision.wake_at_ns) / kMs;
    parts.push_back(wake.str());
  }
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : "; ") + part;
  return text.empty() ? "nothing" : text;
}

/// One line of a script:
///   add TICKET [rows=R] [shape=S] [level=P] [timeout=MS] [deadline=MS]   -> "" or the error's code
///   cancel TICKET                                                       -> "" or "not queued"
///   next | poll                                                         -> Text(decision)
/// with "at MS" in front to set the time.
std::string Play(DynamicBatcher* batcher, const std::string& line, double* now_ms) {
  std::istringstream words(line);
  std::string word;
  words >> word;
  if (word == "at") {
    words >> *now_ms >> word;
  }
  const int64_t now = static_cast<int64_t>(*now_ms * kMs);
  if (word == "add") {
    Arrival arrival;
    words >> arrival.ticket;
    while (words >> word) {
      const size_t equals = word.find('=');
      const std::string key = word.substr(0, equals);
      const double value = std::stod(word.substr(equals + 1));
      if (key == "rows") arrival.rows = static_cast<int64_t>(value);
      if (key == "shape") arrival.shape_key = static_cast<uint64_t>(value);
      if (key == "level") arrival.priority = static_cast<uint64_t>(value);
      if (key == "timeout") arrival.timeout_ns = static_cast<int64_t>(value * kMs);
      if (key == "deadline") arrival.deadline_ns = static_cast<int64_t>(value * kMs);
    }
    const base::Status status = batcher->Enqueue(arrival, now);
    return status.ok() ? "" : std::string(base::StatusCodeName(status.code()));
  }
  if (word == "cancel") {
    Ticket ticket = 0;
    words >> ticket;
    return batcher->Cancel(ticket) ? "" : "not queued";
  }
  Decision decision;
  if (word == "next") {
    batcher->Next(now, &decision);
  } else if (word == "poll") {
    batcher->Poll(now, &decision);
  } else {
    return "unknown word " + word;
  }
  return Text(decision);
}

struct Step {
  std::string line;
  std::string want = "";
};

void RunScript(const DynamicConfig& config, const std::vector<Step>& steps) {
  auto batcher = DynamicBatcher::Make(config);
  ASSERT_TRUE(batcher.ok()) << batcher.status().ToString();
  double now_ms = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    EXPECT_EQ(Play(&*batcher, steps[i].line, &now_ms), steps[i].want) << "step " << i << ": " << steps[i].line;
  }
}

DynamicConfig Batching(int64_t max_batch_size, double delay_ms = 0, std::vector<int64_t> preferred = {}) {
  DynamicConfig config;
  config.max_batch_size = max_batch_size;
  config.batching = true;
  config.max_queue_delay_ns = static_cast<int64_t>(delay_ms * kMs);
  config.preferred_batch_sizes = std::move(preferred);
  return config;
}

DynamicConfig WithPolicy(DynamicConfig config, QueuePolicy policy) {
  config.default_policy = policy;
  return config;
}

DynamicConfig WithLevels(DynamicConfig config, uint64_t levels, uint64_t default_level) {
  config.priority_levels = levels;
  config.default_priority_level = default_level;
  return config;
}

// --- Forming batches -----------------------------------------------------------------------------

TEST(DynamicBatcherTest, EmptyQueueHasNothingToRun) { RunScript(Batching(4), {{"next", "nothing"}, {"poll", "nothing"}}); }

TEST(DynamicBatcherTest, WithoutDelayAnInstanceTakesWhatIsThere) {
  RunScript(Batching(4), {{"add 1"}, {"next", "slot_free 1"}, {"next", "nothing"}});
}

// server#3624: the batch stayed at 1 although requests waited.
TEST(DynamicBatcherTest, LateGrowthMergesAllThatWaitWhenAnInstanceFreesItself) {
  RunScript(Batching(8), {{"add 1"}, {"next", "slot_free 1"}, {"at 1 add 2"}, {"at 2 add 3 rows=3"}, {"at 3 add 4"},
                          {"at 9 next", "slot_free 2,3,4"}});
}

TEST(DynamicBatcherTest, StopsAtMaxBatchSizeWithoutSkippingAhead) {
  RunScript(Batching(4), {{"add 1 rows=3"}, {"add 2 rows=2"}, {"add 3"}, {"next", "full 1"}, {"next", "slot_free 2,3"}});
}

TEST(DynamicBatcherTest, FullBatchDoesNotWaitForTheDelay) {
  RunScript(Batching(4, 100), {{"add 1 rows=3"}, {"next", "wake 100"}, {"at 1 add 2"}, {"next", "full 1,2"}});
}

TEST(DynamicBatcherTest, DelayIsKeptExactly) {
  RunScript(Batching(4, 100), {{"at 5 add 1"}, {"next", "wake 105"}, {"at 50 add 2"}, {"next", "wake 105"},
                               {"at 104.999999 next", "wake 105"}, {"at 105 next", "delay 1,2"}, {"next", "nothing"}});
}

// The batch model of the peers' repository: preferred 4, delay 500 ms.
TEST(DynamicBatcherTest, FourSinglesOrTwoPairsFormAPreferredBatch) {
  const DynamicConfig config = Batching(4, 500, {4});
  RunScript(config, {{"add 1"}, {"add 2"}, {"add 3"}, {"next", "wake 500"}, {"add 4"}, {"next", "full 1,2,3,4"}});
  RunScript(config, {{"add 1 rows=2"}, {"next", "wake 500"}, {"at 1 add 2 rows=2"}, {"next", "full 1,2"}});
}

TEST(DynamicBatcherTest, ThreeAndTwoGoApartAsSoonAsTheSecondOverflows) {
  for (int64_t max : {4, 8}) {
    RunScript(Batching(max, 500, {4}), {{"add 1 rows=3"}, {"next", "wake 500"}, {"at 10 add 2 rows=2"},
                                        {"next", max == 4 ? "full 1" : "preferred 1"}, {"next", "wake 510"},
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
  RunScript(Batching(8, 0, {4}), {{"add 1"}, {"add 2"}, {"add 3"}, {"add 4"}, {"add 5"}, {"next", "preferred 1,2,3,4"},
                                  {"next", "slot_free 5"}});
}

TEST(DynamicBatcherTest, UnmetPreferredSizesStillWaitForTheDelay) {
  RunScript(Batching(16, 100, {4, 16}), {{"add 1 rows=3"}, {"add 2 rows=2"}, {"next", "wake 100"},
                                         {"at 100 next", "delay 1,2"}});
}

TEST(DynamicBatcherTest, EveryRequestRunsAloneWithoutBatching) {
  DynamicConfig off = Batching(8, 100, {4});
  off.batching = false;
  RunScript(off, {{"add 1 rows=2"}, {"add 2"}, {"next", "unbatched 1"}, {"next", "unbatched 2"}, {"next", "nothing"}});
  RunScript(Batching(0, 100), {{"add 1 rows=0"}, {"add 2 rows=77"}, {"next", "unbatched 1"}, {"next", "unbatched 2"}});
}

TEST(DynamicBatcherTest, NeverSlowerThanWithoutBatching) {
  // With delay 0 an instance that asks while somebody waits always gets work, whatever else is configured.
  for (const DynamicConfig& config : {Batching(8), Batching(8, 0, {8}), Batching(8, 0, {3, 7})}) {
    RunScript(config, {{"add 1 rows=5"}, {"next", "slot_free 1"}, {"add 2"}, {"next", "slot_free 2"}});
  }
}

// --- Shapes --------------------------------------------------------------------------------------

TEST(DynamicBatcherTest, AlternatingShapesStillFillBatches) {
  const std::vector<Step> adds = {{"add 1 shape=1"}, {"add 2 shape=2"}, {"add 3 shape=1"}, {"add 4 shape=2"},
                                  {"add 5 shape=1"}, {"add 6 shape=2"}};
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
  RunScript(Batching(2), {{"add 1 shape=1"}, {"add 2 shape=2"}, {"add 3 shape=2"}, {"next", "slot_free 1"}, {"next", "full 2,3"}});
}

TEST(DynamicBatcherTest, FullShapeNeedNotWaitBehindAWaitingHead) {
  RunScript(Batching(2, 100), {{"add 1 shape=1"}, {"at 1 add 2 shape=2"}, {"next", "wake 100"}, {"at 2 add 3 shape=2"},
                               {"next", "full 2,3"}, {"next", "wake 100"}, {"at 100 next", "delay 1"}});
}

TEST(DynamicBatcherTest, AmongFullShapesTheFirstInLineGoesFirst) {
  RunScript(WithLevels(Batching(2, 100), 3, 3),
            {{"add 1 shape=1 level=1"}, {"add 2 shape=2 level=3"}, {"add 3 shape=2 level=3"}, {"add 4 shape=3 level=2"},
             {"add 5 shape=3 level=2"}, {"next", "full 4,5"}, {"next", "full 2,3"}, {"next", "wake 100"}});
}

TEST(DynamicBatcherTest, WithoutLookingPastAShapeChangeEndsTheDelay) {
  DynamicConfig strict = Batching(4, 100);
  strict.look_past_shapes = false;
  RunScript(strict, {{"add 1 shape=1"}, {"next", "wake 100"}, {"at 1 add 2 shape=2"}, {"next", "shape 1"}, {"next", "wake 101"}});
}

// --- Priorities and ageing -----------------------------------------------------------------------

TEST(DynamicBatcherTest, LowerLevelNumbersComeFirst) {
  RunScript(WithLevels(Batching(1), 3, 2),
            {{"add 1 level=3"}, {"add 2"}, {"add 3 level=1"}, {"add 4 level=1"}, {"add 5 level=9"}, {"next", "full 3"},
             {"next", "full 4"}, {"next", "full 2"}, {"next", "full 5"}, {"next", "full 1"}});
}

TEST(DynamicBatcherTest, PrioritiesMeanNothingWithoutLevels) {
  RunScript(Batching(1), {{"add 1 level=3"}, {"add 2 level=1"}, {"next", "full 1"}, {"next", "full 2"}});
}

TEST(DynamicBatcherTest, ABatchMixesLevels) {
  RunScript(WithLevels(Batching(4), 2, 2), {{"add 1"}, {"add 2 level=1"}, {"add 3"}, {"next", "slot_free 2,1,3"}});
}

TEST(DynamicBatcherTest, LevelsMayBeAsManyAsAConfigCanSay) {
  RunScript(WithLevels(Batching(1), UINT64_MAX, UINT64_MAX), {{"add 1"}, {"add 2 level=1000000"}, {"next", "full 2"}, {"next", "full 1"}});
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

// --- Queue policy --------------------------------------------------------------------------------

TEST(DynamicBatcherTest, QueueSizeIsLimitedPerLevel) {
  RunScript(WithPolicy(WithLevels(Batching(1), 2, 2), {.max_queue_size = 2}),
            {{"add 1"}, {"next", "full 1"}, {"add 2"}, {"add 3"}, {"add 4", "UNAVAILABLE"}, {"add 5 level=1"},
             {"add 6 level=1"}, {"add 7 level=1", "UNAVAILABLE"}, {"next", "full 5"}, {"add 8", "UNAVAILABLE"},
             {"add 9 level=1"}});
}

TEST(DynamicBatcherTest, RefusalSaysWhatTritonsClientsLookFor) {
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
TEST(DynamicBatcherTest, QueueSizeDoesNotDrift) {
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

TEST(DynamicBatcherTest, ExpiredRequestsMakeRoomBeforeTheyAreReported) {
  RunScript(WithPolicy(Batching(4), {.default_timeout_ns = 5 * kMs, .max_queue_size = 1}),
            {{"add 1"}, {"at 4 add 2", "UNAVAILABLE"}, {"at 5 add 2"}, {"cancel 1", "not queued"}, {"poll", "timeout 1; wake 10"}});
}

TEST(DynamicBatcherTest, EveryQueueHasABound) {
  DynamicConfig config = Batching(4);
  config.queue_cap_requests = 3;
  config.queue_cap_rows = 6;
  RunScript(config, {{"add 1 rows=3"}, {"add 2 rows=4", "UNAVAILABLE"}, {"add 2 rows=2"}, {"add 3"}, {"add 4", "UNAVAILABLE"}});
}

TEST(DynamicBatcherTest, TimeoutRejectsExactlyAtItsLimit) {
  RunScript(WithPolicy(Batching(1), {.default_timeout_ns = 50 * kMs}),
            {{"at 1 add 1"}, {"poll", "wake 51"}, {"at 50.999999 poll", "wake 51"}, {"at 51 poll", "timeout 1"}, {"next", "nothing"}});
}

// A request that ran in time is served even if nobody asked before: only waiting counts.
TEST(DynamicBatcherTest, ExpiredRequestsAreDroppedBeforeAPlanIsMade) {
  RunScript(WithPolicy(Batching(4), {.default_timeout_ns = 50 * kMs}),
            {{"add 1"}, {"at 10 add 2"}, {"at 55 next", "timeout 1; slot_free 2"}});
}

TEST(DynamicBatcherTest, OwnTimeoutCountsOnlyBelowTheDefault) {
  const QueuePolicy fixed{.default_timeout_ns = 50 * kMs};
  const QueuePolicy open{.default_timeout_ns = 50 * kMs, .allow_timeout_override = true};
  const QueuePolicy no_default{.allow_timeout_override = true};
  RunScript(WithPolicy(Batching(1), fixed), {{"add 1 timeout=20"}, {"poll", "wake 50"}});
  RunScript(WithPolicy(Batching(1), open), {{"add 1 timeout=20"}, {"poll", "wake 20"}});
  RunScript(WithPolicy(Batching(1), open), {{"add 1 timeout=80"}, {"poll", "wake 50"}});
  RunScript(WithPolicy(Batching(1), open), {{"add 1 timeout=0"}, {"poll", "wake 50"}});
  RunScript(WithPolicy(Batching(1), no_default), {{"add 1 timeout=20"}, {"poll", "nothing"}});
}

TEST(DynamicBatcherTest, DelayMovesBehindThoseInTime) {
  const QueuePolicy policy{.delay_on_timeout = true, .default_timeout_ns = 300 * kMs, .allow_timeout_override = true,
                           .max_queue_size = 4};
  RunScript(WithPolicy(Batching(1), policy),
            {{"add 1 timeout=100"}, {"add 2"}, {"add 3 timeout=50"}, {"poll", "wake 50"}, {"at 100 poll", "wake 300"},
             {"at 120 add 4"}, {"add 5", "UNAVAILABLE"}, {"next", "full 2; wake 420"}, {"next", "full 4"},
             {"next", "full 3"}, {"next", "full 1"}});
}

TEST(DynamicBatcherTest, DelayedRequestsComeBeforeTheNextLevel) {
  DynamicConfig config = WithLevels(Batching(1), 2, 2);
  config.level_policies[1] = {.delay_on_timeout = true, .default_timeout_ns = 10 * kMs};
  RunScript(config, {{"add 1 level=1"}, {"add 2"}, {"at 20 add 3 level=1"}, {"next", "full 3"}, {"next", "full 1"}, {"next", "full 2"}});
}

TEST(DynamicBatcherTest, DelayedRequestsNeverExpireAgainButKeepTheirDeadline) {
  RunScript(WithPolicy(Batching(1), {.delay_on_timeout = true, .default_timeout_ns = 10 * kMs}),
            {{"add 1"}, {"add 2 deadline=40"}, {"at 30 poll", "wake 40"}, {"at 40 poll", "deadline 2"}, {"at 5000 poll", "nothing"},
             {"next", "full 1"}});
}

// server#7512: a timeout was noticed only after the run. The wake-up time is the deadline itself.
TEST(DynamicBatcherTest, TimeoutShorterThanTheRunIsReportedAtItsTime) {
  RunScript(WithPolicy(Batching(1), {.default_timeout_ns = 50 * kMs}),
            {{"add 1"}, {"next", "full 1"}, {"at 10 add 2"}, {"poll", "wake 60"}, {"at 60 poll", "timeout 2"},
             {"at 1000 next", "nothing"}});
}

TEST(DynamicBatcherTest, DeadlineDropsWithoutAnyPolicy) {
  RunScript(Batching(1), {{"at 5 add 1 deadline=5", "DEADLINE_EXCEEDED"}, {"add 1 deadline=6"}, {"poll", "wake 6"},
                          {"at 6 next", "deadline 1"}});
}

TEST(DynamicBatcherTest, NobodyWaitsForCompanyUntilItIsTooLate) {
  const DynamicConfig config = WithPolicy(Batching(4, 100), {.default_timeout_ns = 40 * kMs});
  RunScript(config, {{"add 1"}, {"next", "wake 20"}, {"at 20 next", "deadline 1"}});
  RunScript(Batching(4, 100), {{"add 1"}, {"at 2 add 2 shape=7 deadline=22"}, {"next", "wake 12"}, {"at 12 next", "deadline 2"}});
  DynamicConfig like_triton = config;
  like_triton.start_before_timeout = false;
  RunScript(like_triton, {{"add 1"}, {"next", "wake 40"}, {"at 40 next", "timeout 1"}});
}

TEST(DynamicBatcherTest, TimeoutsThatDelayDoNotShortenTheWaitForCompany) {
  RunScript(WithPolicy(Batching(4, 100), {.delay_on_timeout = true, .default_timeout_ns = 40 * kMs}),
            {{"add 1"}, {"next", "wake 40"}, {"at 40 next", "wake 100"}, {"at 100 next", "delay 1"}});
}

// --- Known faults --------------------------------------------------------------------------------

// A payload that failed to merge (size or shape) stayed closed and stopped growing.
TEST(DynamicBatcherTest, RequestThatCouldNotJoinKeepsGrowing) {
  RunScript(Batching(4), {{"add 1 rows=3"}, {"add 2 rows=2"}, {"next", "full 1"}, {"at 1 add 3 rows=2"}, {"next", "full 2,3"}});
  RunScript(Batching(4), {{"add 1 shape=1"}, {"add 2 shape=2"}, {"next", "slot_free 1"}, {"at 1 add 3 shape=2"}, {"next", "slot_free 2,3"}});
}

// A lost wake-up could stall for 500 ms: without a plan, the time to ask again is always told.
TEST(DynamicBatcherTest, NoWakeUpIsLost) {
  RunScript(WithPolicy(Batching(4, 30), {.default_timeout_ns = 500 * kMs}),
            {{"add 1"}, {"next", "wake 30"}, {"at 10 cancel 1"}, {"next", "nothing"}, {"at 11 add 2"}, {"at 12 add 3"},
             {"next", "wake 41"}, {"cancel 2"}, {"next", "wake 42"}, {"at 42 next", "delay 3"}});
}

// --- Cancellation, drain, mistakes of the caller ------------------------------------------------

TEST(DynamicBatcherTest, CancelledRequestsAreGone) {
  RunScript(Batching(4), {{"add 1"}, {"add 2"}, {"add 3"}, {"cancel 2"}, {"cancel 2", "not queued"}, {"next", "slot_free 1,3"},
                          {"cancel 1", "not queued"}, {"cancel 99", "not queued"}});
}

TEST(DynamicBatcherTest, DrainEmptiesInOrderOfArrival) {
  auto batcher = DynamicBatcher::Make(WithPolicy(WithLevels(Batching(4), 2, 2), {.default_timeout_ns = 5, .max_queue_size = 2}));
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
  RunScript(Batching(4), {{"add 1 rows=0", "INVALID_ARGUMENT"}, {"add 1 rows=5", "INVALID_ARGUMENT"}, {"add 1"},
                          {"add 1", "ALREADY_EXISTS"}, {"next", "slot_free 1"}, {"add 1"}});
}

TEST(DynamicBatcherTest, TimeThatRunsBackwardsCountsAsTheLatest) {
  RunScript(Batching(4, 10), {{"at 20 add 1"}, {"at 5 add 2"}, {"next", "wake 30"}, {"at 30 next", "delay 1,2"}});
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
