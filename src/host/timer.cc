#include "timer.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include <stoker/base/check.h>
#include <stoker/base/mutex.h>
#include <stoker/base/thread.h>

namespace stoker::host {
namespace {
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
}

struct Timer::State {
  using Queue = std::set<std::pair<int64_t, Client*>>;

  explicit State(base::Clock* c) : clock(c) {}

  void SetAlarm() REQUIRES(mutex) {
    const int64_t first = queue.empty() ? kNever : queue.begin()->first;
    if (first == alarm_ns) return;
    alarm_ns = first;
    itimerspec spec{};
    if (first != kNever) {
      const int64_t wait_ns = std::max<int64_t>(first - clock->NowNs(), 1);
      spec.it_value.tv_sec = wait_ns / base::kNsPerSecond;
      spec.it_value.tv_nsec = wait_ns % base::kNsPerSecond;
    }
    timerfd_settime(alarm, 0, &spec, nullptr);
  }

  // Calls whoever is due.
  void Fire() {
    base::MutexLock lock(&mutex);
    alarm_ns = kNever;
    const int64_t now = clock->NowNs();
    while (!queue.empty() && queue.begin()->first <= now) {
      Client* client = queue.begin()->second;
      times.erase(client);
      queue.erase(queue.begin());
      running = client;
      mutex.Unlock();
      client->OnTimer();
      mutex.Lock();
      running = nullptr;
      done.NotifyAll();
    }
    alarm_ns = kNever;
    SetAlarm();
  }

  void Work() {
    pollfd waits[] = {{.fd = alarm, .events = POLLIN, .revents = 0},
                      {.fd = stop, .events = POLLIN, .revents = 0}};
    for (;;) {
      if (poll(waits, 2, -1) < 0) continue;
      if ((waits[1].revents & POLLIN) != 0) return;
      uint64_t fired = 0;
      if ((waits[0].revents & POLLIN) != 0 && read(alarm, &fired, sizeof(fired)) == sizeof(fired)) Fire();
    }
  }

  base::Clock* const clock;
  int alarm = -1;
  int stop = -1;
  base::Mutex mutex;
  base::CondVar done;
  Queue queue GUARDED_BY(mutex);
  std::map<Client*, int64_t> times GUARDED_BY(mutex);
  Client* running GUARDED_BY(mutex) = nullptr;
  int64_t alarm_ns GUARDED_BY(mutex) = kNever;
  base::Thread thread;
};

Timer::Timer(base::Clock* clock) : state_(std::make_unique<State>(clock)) {
  state_->alarm = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  state_->stop = eventfd(0, EFD_CLOEXEC);
  CHECK(state_->alarm >= 0 && state_->stop >= 0);
  state_->thread = base::Thread("host/timer", [state = state_.get()] { state->Work(); });
}

Timer::~Timer() {
  const uint64_t one = 1;
  CHECK(write(state_->stop, &one, sizeof(one)) == sizeof(one));
  state_->thread.Join();
  close(state_->alarm);
  close(state_->stop);
}

void Timer::Arm(Client* client, int64_t at_ns) {
  base::MutexLock lock(&state_->mutex);
  const auto known = state_->times.find(client);
  if (known == state_->times.end()) {
    if (at_ns == kNever) return;
    state_->times.emplace(client, at_ns);
    state_->queue.emplace(at_ns, client);
  } else if (known->second == at_ns) {
    return;
  } else {
    auto node = state_->queue.extract({known->second, client});
    if (at_ns == kNever) {
      state_->times.erase(known);
    } else {
      known->second = at_ns;
      node.value().first = at_ns;
      state_->queue.insert(std::move(node));
    }
  }
  // An alarm that comes too early does no harm; setting it later again would cost a system call.
  if (!state_->queue.empty() && state_->queue.begin()->first < state_->alarm_ns) state_->SetAlarm();
}

void Timer::Remove(Client* client) {
  base::MutexLock lock(&state_->mutex);
  const auto known = state_->times.find(client);
  if (known != state_->times.end()) {
    state_->queue.erase({known->second, client});
    state_->times.erase(known);
  }
  while (state_->running == client) state_->done.Wait(&state_->mutex);
}

}  // namespace stoker::host
