// Seeded schedules in virtual time, each held against the rules by ScheduleChecker, and the effects
// that users look for on larger loads. STOKER_SEED and STOKER_SCHEDULES choose others.

#include <algorithm>
#include <cstdlib>
#include <string>

#include <gtest/gtest.h>
#include <stoker/batching/testing/schedule_checker.h>
#include <stoker/batching/testing/simulator.h>

namespace stoker::batching::testing {
namespace {

constexpr int64_t kUs = 1000;
constexpr int64_t kMs = 1000 * kUs;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr uint64_t kSchedules = 10'000;
#else
constexpr uint64_t kSchedules = 100'000;
#endif

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

std::string Violations(const SimulationSpec& spec, SimulationResult* result) {
  ScheduleChecker checker(spec.config);
  auto simulated = Simulate(spec, &checker);
  if (!simulated.ok()) return simulated.status().ToString();
  *result = *std::move(simulated);
  checker.Finish(spec, *result);
  std::string text;
  for (const std::string& violation : checker.violations()) text += violation + "\n";
  return text;
}

TEST(SimulationTest, RulesHoldInRandomSchedules) {
  const uint64_t first = FromEnvironment("STOKER_SEED", 1);
  const uint64_t count = FromEnvironment("STOKER_SCHEDULES", kSchedules);
  uint64_t outcomes[6] = {}, closed_by[kCloseReasonCount] = {}, led_by_aged = 0, failures = 0;
  for (uint64_t seed = first; seed < first + count && failures < 5; ++seed) {
    SimulationResult result;
    const std::string violations = Violations(RandomSchedule(seed), &result);
    if (!violations.empty()) {
      ADD_FAILURE() << "STOKER_SEED=" << seed << " STOKER_SCHEDULES=1\n" << violations;
      ++failures;
    }
    for (const RequestResult& request : result.requests) ++outcomes[static_cast<size_t>(request.outcome)];
    for (size_t i = 0; i < kCloseReasonCount; ++i) closed_by[i] += result.closed_by[i];
    led_by_aged += result.led_by_aged;
  }
  if (count < 1000) return;
  // The schedules must reach every corner, or they prove little.
  EXPECT_GT(led_by_aged, count / 100);
  for (size_t i = 1; i < 6; ++i) EXPECT_GT(outcomes[i], count / 10) << "outcome " << i;
  for (size_t i = 0; i < kCloseReasonCount; ++i) {
    EXPECT_GT(closed_by[i], count / 10) << CloseReasonName(static_cast<CloseReason>(i));
  }
}

/// One instance, 1 ms a batch and 10 us a row: batches of 32 carry far more than single requests.
SimulationSpec BusyModel() {
  SimulationSpec spec;
  spec.config.max_batch_size = 32;
  spec.config.batching = true;
  spec.cost_ns = [](int64_t rows, uint64_t) { return kMs + rows * 10 * kUs; };
  return spec;
}

double MeanLatencyMs(const SimulationResult& result) {
  double sum = 0;
  for (const RequestResult& request : result.requests) sum += static_cast<double>(request.finish_ns);
  return sum / static_cast<double>(result.requests.size()) / kMs;
}

// server#7492: turning batching on made it slower. Same load, same model, on against off.
TEST(SimulationTest, BatchingIsNeverSlowerThanNone) {
  for (double rate : {50.0, 300.0, 800.0, 950.0, 3000.0, 20000.0}) {
    for (int instances : {1, 2, 4}) {
      SCOPED_TRACE(std::to_string(rate) + "/s, instances " + std::to_string(instances));
      SimulationSpec spec = BusyModel();
      spec.instances = instances;
      spec.cost_ns = [](int64_t rows, uint64_t) { return rows * kMs - (rows - 1) * 100 * kUs; };
      spec.requests = MakeLoad({.requests = 3000, .rate = rate}, 7);
      const auto on = Simulate(spec);
      spec.config.batching = false;
      const auto off = Simulate(spec);
      ASSERT_TRUE(on.ok() && off.ok());
      EXPECT_LE(on->end_ns, off->end_ns + spec.cost_ns(32, 0));
    }
  }
}

// server#3624: the batch stayed at 1 although requests waited.
TEST(SimulationTest, LateGrowthFillsBatchesWithoutADelay) {
  SimulationSpec spec = BusyModel();
  spec.requests = MakeLoad({.requests = 20000, .rate = 20000}, 3);
  const auto result = Simulate(spec);
  ASSERT_TRUE(result.ok());
  EXPECT_GT(static_cast<double>(result->rows) / static_cast<double>(result->plans), 20.0);
  const double last_ms = static_cast<double>(spec.requests.back().arrives_ns) / kMs;
  EXPECT_LT(static_cast<double>(result->end_ns) / kMs, last_ms + 5) << "keeps up with the load";
}

TEST(SimulationTest, MixedShapesBatchAsWellAsTheirNumberAllows) {
  SimulationSpec spec = BusyModel();
  spec.requests = MakeLoad({.requests = 20000, .rate = 18000, .shapes = 4}, 3);
  const auto past = Simulate(spec);
  spec.config.look_past_shapes = false;
  const auto strict = Simulate(spec);
  ASSERT_TRUE(past.ok() && strict.ok());
  EXPECT_LT(past->plans * 8, strict->plans) << "bucketing by shape against stopping at each change";
  EXPECT_LT(MeanLatencyMs(*past) * 2, MeanLatencyMs(*strict));
}

// Overload with high-priority requests alone: the low ones are served within the stated bound.
TEST(SimulationTest, LowPriorityIsServedWithinTheBoundUnderOverload) {
  SimulationSpec spec = BusyModel();
  spec.config.max_batch_size = 1;
  spec.config.priority_levels = spec.config.default_priority_level = 3;
  spec.config.ageing_limit_ns = 50 * kMs;
  spec.config.default_policy.max_queue_size = 20;
  spec.requests = MakeLoad({.requests = 6000, .rate = 3000}, 11);
  for (SimulatedRequest& request : spec.requests)
    request.arrival.priority = request.arrival.ticket % 100 == 0 ? 3 : 1;
  SimulationResult result;
  EXPECT_EQ(Violations(spec, &result), "");
  int64_t low = 0, low_served = 0, worst_ns = 0;
  for (const SimulatedRequest& request : spec.requests) {
    if (request.arrival.priority != 3) continue;
    ++low;
    const RequestResult& outcome = result.requests[request.arrival.ticket];
    if (outcome.outcome != Outcome::kServed) continue;
    ++low_served;
    worst_ns = std::max(worst_ns, outcome.start_ns - request.arrives_ns);
  }
  EXPECT_GT(low_served * 2, low);
  // At most 40 wait, each plan takes 1.01 ms, every eighth is theirs.
  EXPECT_LT(worst_ns, 50 * kMs + 8 * 41 * 1010 * kUs);
}

TEST(SimulationTest, TheSameSeedGivesTheSameSchedule) {
  for (uint64_t seed : {1u, 77u, 1234u}) {
    const auto a = Simulate(RandomSchedule(seed)), b = Simulate(RandomSchedule(seed));
    ASSERT_TRUE(a.ok() && b.ok());
    EXPECT_EQ(a->released, b->released);
    EXPECT_EQ(a->end_ns, b->end_ns);
  }
}

}  // namespace
}  // namespace stoker::batching::testing
