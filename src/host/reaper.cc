#include "reaper.h"

#include <deque>
#include <map>
#include <utility>

#include <stoker/base/mutex.h>
#include <stoker/base/thread.h>

#include "served_model.h"

namespace stoker::host {

struct Reaper::State {
  struct Body {
    std::unique_ptr<ServedModel> model;
    std::function<void()> gone;
  };

  void Work() {
    for (;;) {
      Body body;
      {
        base::MutexLock lock(&mutex);
        while (bodies.empty() && !closing) work.Wait(&mutex);
        if (bodies.empty()) return;
        body = std::move(bodies.front());
        bodies.pop_front();
      }
      const bool freed = Free(std::move(body.model));
      if (freed && body.gone) body.gone();
      base::MutexLock lock(&mutex);
      if (freed) --count;
      changed.NotifyAll();
    }
  }

  bool Free(std::unique_ptr<ServedModel> model) const {
    std::shared_ptr<ModelCore> core = model->ReleaseCore();
    if (core.use_count() > 1) return true;  // another configuration of the same core goes on
    if (core->Stop(clock->NowNs() + kPatienceNs)) return true;
    // A thread of it is inside its engine and may return: core and files stay for good.
    static_cast<void>(model.release());
    static_cast<void>(new std::shared_ptr<ModelCore>(std::move(core)));
    return false;
  }

  base::Clock* clock = nullptr;
  mutable base::Mutex mutex;
  base::CondVar work, changed;
  std::deque<Body> bodies GUARDED_BY(mutex);
  std::map<const ServedModel*, std::weak_ptr<const ServedModel>> live GUARDED_BY(mutex);
  size_t count GUARDED_BY(mutex) = 0;  // watched and not freed
  bool closing GUARDED_BY(mutex) = false;
  base::Thread thread;
};

Reaper::Reaper(base::Clock* clock) : state_(std::make_shared<State>()) {
  state_->clock = clock;
  state_->thread = base::Thread("host/reaper", [state = state_.get()] { state->Work(); });
}

Reaper::~Reaper() {
  {
    base::MutexLock lock(&state_->mutex);
    state_->closing = true;
    state_->work.NotifyAll();
  }
  state_->thread.Join();
}

std::shared_ptr<const ServedModel> Reaper::Watch(std::unique_ptr<ServedModel> model,
                                                 std::function<void()> gone) {
  const auto bury = [state = state_, gone = std::move(gone)](ServedModel* last) {
    std::unique_ptr<ServedModel> owned(last);
    base::MutexLock lock(&state->mutex);
    state->live.erase(last);
    if (state->closing) {
      // Nobody is left to take it apart; what it uses is kept for good too.
      static_cast<void>(owned.release());
      return;
    }
    state->bodies.push_back({std::move(owned), gone});
    state->work.NotifyOne();
  };
  const ServedModel* key = model.get();
  std::shared_ptr<const ServedModel> shared(model.release(), bury);
  base::MutexLock lock(&state_->mutex);
  ++state_->count;
  state_->live[key] = shared;
  return shared;
}

bool Reaper::Close(int64_t deadline_ns) {
  base::MutexLock lock(&state_->mutex);
  while (state_->count > 0) {
    const int64_t left = deadline_ns - state_->clock->NowNs();
    if (left <= 0) break;
    state_->changed.WaitFor(&state_->mutex, left);
  }
  state_->closing = true;
  state_->work.NotifyAll();
  return state_->count == 0;
}

std::vector<std::shared_ptr<const ServedModel>> Reaper::Live() const {
  std::vector<std::shared_ptr<const ServedModel>> out;  // filled before, dropped after the mutex
  base::MutexLock lock(&state_->mutex);
  for (const auto& [key, weak] : state_->live) {
    if (auto model = weak.lock()) out.push_back(std::move(model));
  }
  return out;
}

}  // namespace stoker::host
