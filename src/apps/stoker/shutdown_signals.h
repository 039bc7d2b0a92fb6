#pragma once

#include <cstdint>

namespace stoker::apps {

/// SIGTERM and SIGINT as values to wait for. Blocks them (and ignores SIGPIPE) for the calling thread
/// and all threads made after it.
class ShutdownSignals {
 public:
  ShutdownSignals();
  /// Waits until one comes and returns its number; 0 when `timeout_ns` ran out first (negative: never).
  int Wait(int64_t timeout_ns);
  /// From now on a signal ends the process.
  void Release();
};

}  // namespace stoker::apps
