#pragma once

#include <cstdint>

namespace stoker::base::testing {

/// A fresh seed for a randomised test, printed so that a failure can be repeated: the environment
/// variable STOKER_TEST_SEED fixes it.
uint64_t RandomSeed();

}  // namespace stoker::base::testing
