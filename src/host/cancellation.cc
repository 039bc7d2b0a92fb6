#include <utility>

#include <stoker/host/request.h>

namespace stoker::host {

void Cancellation::Cancel() {
  cancelled_.store(true, std::memory_order_release);
  std::function<void()> hook;
  {
    base::MutexLock lock(&mutex_);
    if (!hook_) return;
    hook = std::exchange(hook_, nullptr);
    running_ = std::this_thread::get_id();
  }
  hook();
  base::MutexLock lock(&mutex_);
  running_ = std::thread::id();
  done_.NotifyAll();
}

void Cancellation::SetHook(std::function<void()> hook) {
  {
    base::MutexLock lock(&mutex_);
    while (running_ != std::thread::id() && running_ != std::this_thread::get_id()) done_.Wait(&mutex_);
    const bool late = hook && cancelled();
    if (!late) {
      hook_ = std::move(hook);
      return;
    }
  }
  hook();
}

}  // namespace stoker::host
