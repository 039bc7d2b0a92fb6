#pragma once

#include <sys/types.h>

#include <set>

#include <stoker/base/mutex.h>

namespace stoker::host {

/// Keeps loading out of the way of serving: threads that load run as SCHED_BATCH and, where the system
/// would let it be undone, at a lower priority. Threads that an engine starts while loading inherit
/// that and are put back. Thread-safe.
class LoadPriority {
 public:
  LoadPriority();
  /// Lowers the calling thread, once.
  void Enter();
  /// Puts every thread of the process but the loading ones back to normal.
  void Settle();

 private:
  const bool may_renice_;
  base::Mutex mutex_;
  std::set<pid_t> loading_ GUARDED_BY(mutex_);
};

}  // namespace stoker::host
