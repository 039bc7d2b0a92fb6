#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <utility>

#if defined(__clang__)
#define STOKER_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define STOKER_THREAD_ANNOTATION(x)
#endif
#define CAPABILITY(x) STOKER_THREAD_ANNOTATION(capability(x))
#define SCOPED_CAPABILITY STOKER_THREAD_ANNOTATION(scoped_lockable)
#define GUARDED_BY(x) STOKER_THREAD_ANNOTATION(guarded_by(x))
#define REQUIRES(...) STOKER_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define EXCLUDES(...) STOKER_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
#define ACQUIRE(...) STOKER_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define RELEASE(...) STOKER_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
#define NO_THREAD_SAFETY_ANALYSIS STOKER_THREAD_ANNOTATION(no_thread_safety_analysis)

namespace stoker::base {

/// std::mutex with the annotations that clang's -Wthread-safety checks.
class CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;
  void Lock() ACQUIRE() { mutex_.lock(); }
  void Unlock() RELEASE() { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

/// Holds a Mutex for a scope.
class SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex* mutex) ACQUIRE(mutex) : mutex_(mutex) { mutex_->Lock(); }
  ~MutexLock() RELEASE() { mutex_->Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex* const mutex_;
};

/// A condition to wait for under a Mutex. Spurious wake-ups happen: wait in a loop.
class CondVar {
 public:
  void Wait(Mutex* mutex) REQUIRES(mutex);
  /// Waits at most `timeout_ns`; false when it ran out.
  bool WaitFor(Mutex* mutex, int64_t timeout_ns) REQUIRES(mutex);
  void NotifyOne() { condition_.notify_one(); }
  void NotifyAll() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

/// A value that can only be reached through its lock.
template <typename T>
class Guarded {
 public:
  template <typename... Args>
  explicit Guarded(Args&&... args) : value_(std::forward<Args>(args)...) {}
  /// Calls `visit(T&)` under the lock and returns what it returns.
  template <typename Visit>
  auto With(Visit&& visit) {
    MutexLock lock(&mutex_);
    return visit(value_);
  }

 private:
  Mutex mutex_;
  T value_ GUARDED_BY(mutex_);
};

}  // namespace stoker::base
