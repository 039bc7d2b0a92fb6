#include <stoker/base/testing/random_seed.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>

#include <stoker/base/rng.h>

namespace stoker::base::testing {

uint64_t RandomSeed() {
  const char* fixed = std::getenv("STOKER_TEST_SEED");
  const uint64_t seed = fixed != nullptr ? std::strtoull(fixed, nullptr, 10) : EntropySeed();
  std::printf("seed %" PRIu64 " (repeat with STOKER_TEST_SEED=%" PRIu64 ")\n", seed, seed);
  return seed;
}

}  // namespace stoker::base::testing
