#include <stoker/base/mutex.h>

namespace stoker::base {

void CondVar::Wait(Mutex* mutex) NO_THREAD_SAFETY_ANALYSIS {
  std::unique_lock lock(mutex->mutex_, std::adopt_lock);
  condition_.wait(lock);
  lock.release();
}

bool CondVar::WaitFor(Mutex* mutex, int64_t timeout_ns) NO_THREAD_SAFETY_ANALYSIS {
  std::unique_lock lock(mutex->mutex_, std::adopt_lock);
  const auto outcome = condition_.wait_for(lock, std::chrono::nanoseconds(timeout_ns));
  lock.release();
  return outcome == std::cv_status::no_timeout;
}

}  // namespace stoker::base
