#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include <stoker/base/status.h>
#include <stoker/base/thread.h>

namespace stoker::base {

struct ExecutorOptions {
  std::string name = "executor";  // thread names: name/0, name/1, …
  size_t threads = 1;
  size_t queue_limit = 65536;  // tasks waiting at most
};

/// A fixed pool of threads that runs tasks from one bounded queue, first come first served.
/// Thread-safe. The destructor runs what is queued, then joins.
class Executor {
 public:
  explicit Executor(ExecutorOptions options);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// Queues `task`; kResourceExhausted when the queue is full, kUnavailable after Shutdown.
  Status Submit(std::function<void()> task);
  /// Refuses new tasks, runs the queued ones, joins the threads. Idempotent; not from a task.
  void Shutdown();
  size_t queued() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace stoker::base
