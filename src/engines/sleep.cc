#include "sleep_internal.h"

#include <stoker/base/clock.h>
#include <stoker/base/mutex.h>

namespace stoker::engines::internal {

std::function<void(int64_t)> SleepFunction(const EngineOptions& options) {
  if (options.sleep_ns) return options.sleep_ns;
  return [](int64_t duration_ns) {
    const base::Clock& clock = base::Clock::Real();
    const int64_t end_ns = clock.NowNs() + duration_ns;
    base::Mutex mutex;
    base::CondVar never;
    base::MutexLock lock(&mutex);
    for (int64_t left_ns = duration_ns; left_ns > 0; left_ns = end_ns - clock.NowNs())
      never.WaitFor(&mutex, left_ns);
  };
}

}  // namespace stoker::engines::internal
