#include <algorithm>
#include <cmath>

#include <stoker/batching/testing/simulator.h>

namespace stoker::batching::testing {
namespace {

/// SplitMix64: small, and the same numbers with every standard library.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  /// Within low..high, both included.
  int64_t Within(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(Next() % static_cast<uint64_t>(high - low + 1));
  }
  double Share() { return static_cast<double>(Next() >> 11) * 0x1p-53; }
  bool Chance(double p) { return Share() < p; }

 private:
  uint64_t state_;
};

/// A length of time that is none, short, middling or long against a batch (about 10 ticks).
int64_t RandomTicks(Random* random) {
  static constexpr int64_t kLongest[] = {1, 8, 40, 300};
  return random->Within(0, kLongest[random->Within(0, 3)]);
}

constexpr int64_t kTick = 1000;

QueuePolicy RandomPolicy(Random* random, bool may_delay) {
  QueuePolicy policy;
  policy.delay_on_timeout = may_delay && random->Chance(0.5);
  if (random->Chance(0.6)) policy.default_timeout_ns = RandomTicks(random) * kTick;
  policy.allow_timeout_override = random->Chance(0.5);
  if (random->Chance(0.4)) policy.max_queue_size = random->Within(1, 12);
  return policy;
}

DynamicConfig RandomConfig(Random* random) {
  DynamicConfig config;
  config.max_batch_size = random->Chance(0.1) ? 0 : random->Within(1, 12);
  config.batching = random->Chance(0.9);
  for (int64_t i = random->Within(0, 2); config.max_batch_size > 0 && i > 0; --i) {
    config.preferred_batch_sizes.push_back(random->Within(1, config.max_batch_size));
  }
  if (random->Chance(0.6)) config.max_queue_delay_ns = RandomTicks(random) * kTick;
  config.preserve_ordering = random->Chance(0.25);
  if (!config.preserve_ordering && random->Chance(0.6)) {
    config.priority_levels = static_cast<uint64_t>(random->Chance(0.05) ? 1000000 : random->Within(1, 5));
    config.default_priority_level =
        static_cast<uint64_t>(random->Within(1, std::min<int64_t>(5, config.priority_levels)));
    for (uint64_t level = 1; level <= std::min<uint64_t>(5, config.priority_levels); ++level) {
      if (random->Chance(0.3)) config.level_policies[level] = RandomPolicy(random, true);
    }
  }
  config.default_policy = RandomPolicy(random, !config.preserve_ordering);
  config.look_past_shapes = random->Chance(0.75);
  config.start_before_timeout = random->Chance(0.7);
  config.ageing_limit_ns = random->Chance(0.1) ? 0 : random->Within(1, 200) * kTick;
  if (random->Chance(0.2)) config.queue_cap_requests = random->Within(1, 20);
  if (random->Chance(0.2)) config.queue_cap_rows = random->Within(12, 40);
  return config;
}

}  // namespace

std::vector<SimulatedRequest> MakeLoad(const LoadSpec& spec, uint64_t seed) {
  Random random(seed);
  std::vector<SimulatedRequest> requests(static_cast<size_t>(spec.requests));
  double time = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    if (i % static_cast<size_t>(spec.burst) == 0) {
      time += -std::log(1 - random.Share()) * 1e9 * static_cast<double>(spec.burst) / spec.rate;
    }
    SimulatedRequest& request = requests[i];
    request.arrives_ns = static_cast<int64_t>(time) / spec.tick_ns * spec.tick_ns;
    const auto within = [&](int64_t most) { return random.Within(0, most) / spec.tick_ns * spec.tick_ns; };
    request.arrival = {
        .ticket = i,
        .rows = random.Within(1, spec.max_rows),
        .shape_key = random.Next() % spec.shapes,
        .priority = static_cast<uint64_t>(random.Within(0, static_cast<int64_t>(spec.priorities))),
        .timeout_ns = within(spec.max_timeout_ns)};
    if (random.Chance(spec.cancel_share))
      request.cancel_ns = request.arrives_ns + within(spec.max_patience_ns);
    if (random.Chance(spec.deadline_share)) {
      request.arrival.deadline_ns = request.arrives_ns + within(spec.max_deadline_ns);
    }
  }
  return requests;
}

SimulationSpec RandomSchedule(uint64_t seed) {
  Random random(seed);
  SimulationSpec spec;
  spec.config = RandomConfig(&random);
  spec.instances = static_cast<int>(random.Within(1, 4));
  const int64_t fixed = random.Within(1, 20), per_row = random.Within(0, 5), jitter = random.Within(1, 15);
  spec.cost_ns = [=](int64_t rows, uint64_t plan) {
    return (fixed + per_row * rows + static_cast<int64_t>(plan * 7 % static_cast<uint64_t>(jitter))) * kTick;
  };
  LoadSpec load;
  load.requests = random.Within(1, random.Chance(0.03) ? 300 : 50);
  load.tick_ns = kTick;
  load.rate = 1e9 / static_cast<double>(kTick * random.Within(1, 25));
  load.burst = random.Chance(0.4) ? random.Within(2, 20) : 1;
  load.max_rows =
      random.Chance(0.5) ? 1 : std::max<int64_t>(1, std::min<int64_t>(spec.config.max_batch_size, 6));
  load.shapes = static_cast<uint64_t>(random.Chance(0.4) ? 1 : random.Within(1, 5));
  load.priorities = static_cast<uint64_t>(random.Within(0, 6));
  load.max_timeout_ns = RandomTicks(&random) * kTick;
  if (random.Chance(0.4)) load.cancel_share = random.Share() / 2;
  load.max_patience_ns = RandomTicks(&random) * kTick;
  if (random.Chance(0.3)) load.deadline_share = random.Share();
  load.max_deadline_ns = RandomTicks(&random) * kTick;
  spec.requests = MakeLoad(load, random.Next());
  spec.needless_question_every = static_cast<int>(random.Chance(0.2) ? random.Within(1, 5) : 0);
  return spec;
}

}  // namespace stoker::batching::testing
