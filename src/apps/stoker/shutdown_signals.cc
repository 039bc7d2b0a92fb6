#include "shutdown_signals.h"

#include <csignal>
#include <ctime>

#include <stoker/base/clock.h>

namespace stoker::apps {
namespace {

sigset_t Watched() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

}  // namespace

ShutdownSignals::ShutdownSignals() {
  const sigset_t set = Watched();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

int ShutdownSignals::Wait(int64_t timeout_ns) {
  const sigset_t set = Watched();
  const int64_t deadline = base::Clock::Real().NowNs() + timeout_ns;
  for (;;) {
    int signal = -1;
    if (timeout_ns < 0) {
      signal = sigwaitinfo(&set, nullptr);
    } else {
      const int64_t left = deadline - base::Clock::Real().NowNs();
      if (left <= 0) return 0;
      const timespec wait{left / base::kNsPerSecond, left % base::kNsPerSecond};
      signal = sigtimedwait(&set, nullptr, &wait);
    }
    if (signal > 0) return signal;  // otherwise interrupted or timed out: look at the time again
  }
}

void ShutdownSignals::Release() {
  const sigset_t set = Watched();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

}  // namespace stoker::apps
