#pragma once

#include <cstdint>
#include <functional>

#include <stoker/engines/engines.h>

namespace stoker::engines::internal {

/// EngineOptions::sleep_ns, or a function that makes the calling thread sleep.
std::function<void(int64_t)> SleepFunction(const EngineOptions& options);

}  // namespace stoker::engines::internal
