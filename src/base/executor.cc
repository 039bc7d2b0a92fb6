#include <stoker/base/executor.h>

#include <deque>
#include <vector>

#include <stoker/base/mutex.h>
#include <stoker/base/str_cat.h>
#include <stoker/base/thread.h>

namespace stoker::base {

struct Executor::State {
  explicit State(ExecutorOptions o) : options(std::move(o)) {}

  void Work() {
    for (;;) {
      std::function<void()> task;
      {
        MutexLock lock(&mutex);
        while (tasks.empty() && !stopping) wake.Wait(&mutex);
        if (tasks.empty()) return;
        task = std::move(tasks.front());
        tasks.pop_front();
      }
      task();
    }
  }

  const ExecutorOptions options;
  Mutex mutex;
  CondVar wake;
  std::deque<std::function<void()>> tasks GUARDED_BY(mutex);
  bool stopping GUARDED_BY(mutex) = false;
  std::vector<Thread> threads;
};

Executor::Executor(ExecutorOptions options) : state_(std::make_unique<State>(std::move(options))) {
  for (size_t i = 0; i < state_->options.threads; ++i) {
    state_->threads.emplace_back(StrCat(state_->options.name, "/", i),
                                 [state = state_.get()] { state->Work(); });
  }
}

Executor::~Executor() { Shutdown(); }

Status Executor::Submit(std::function<void()> task) {
  MutexLock lock(&state_->mutex);
  if (state_->stopping) return Unavailable(StrCat(state_->options.name, " is shutting down"));
  if (state_->tasks.size() >= state_->options.queue_limit) {
    return ResourceExhausted(StrCat("Exceeds maximum queue size: ", state_->options.name, " holds ",
                                    state_->tasks.size(), " waiting tasks already"));
  }
  state_->tasks.push_back(std::move(task));
  state_->wake.NotifyOne();
  return OkStatus();
}

void Executor::Shutdown() {
  {
    MutexLock lock(&state_->mutex);
    state_->stopping = true;
    state_->wake.NotifyAll();
  }
  for (Thread& thread : state_->threads) thread.Join();
}

size_t Executor::queued() const {
  MutexLock lock(&state_->mutex);
  return state_->tasks.size();
}

}  // namespace stoker::base
