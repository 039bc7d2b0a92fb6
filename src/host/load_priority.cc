#include "load_priority.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <string>

#include <stoker/base/thread.h>

namespace stoker::host {
namespace {

constexpr int kLoadNice = 10;

// Raising a priority again needs a right that most processes lack, so it is tried on a thread that ends.
bool CanUndoNice() {
  bool undone = false;
  base::Thread trial("host/trial", [&undone] {
    const auto self = static_cast<id_t>(gettid());
    const int before = getpriority(PRIO_PROCESS, self);
    undone = setpriority(PRIO_PROCESS, self, before + 1) == 0 && setpriority(PRIO_PROCESS, self, before) == 0;
  });
  trial.Join();
  return undone;
}

}  // namespace

LoadPriority::LoadPriority() : may_renice_(CanUndoNice()) {}

void LoadPriority::Enter() {
  const pid_t self = gettid();
  base::MutexLock lock(&mutex_);
  if (!loading_.insert(self).second) return;
  const sched_param none{};
  static_cast<void>(sched_setscheduler(self, SCHED_BATCH, &none));
  if (may_renice_) static_cast<void>(setpriority(PRIO_PROCESS, static_cast<id_t>(self), kLoadNice));
}

void LoadPriority::Settle() {
  base::MutexLock lock(&mutex_);
  std::error_code error;
  for (std::filesystem::directory_iterator it("/proc/self/task", error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    pid_t thread = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), thread).ec != std::errc()) continue;
    if (loading_.contains(thread) || sched_getscheduler(thread) != SCHED_BATCH) continue;
    const sched_param none{};
    static_cast<void>(sched_setscheduler(thread, SCHED_OTHER, &none));
    if (may_renice_) static_cast<void>(setpriority(PRIO_PROCESS, static_cast<id_t>(thread), 0));
  }
}

}  // namespace stoker::host
