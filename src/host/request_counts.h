#pragma once

#include <cstdint>

#include <stoker/observe/metrics.h>

namespace stoker::host {

/// How many requests the host has taken and answered. Thread-safe.
class RequestCounts {
 public:
  void Begin() { begun_.Add(); }
  void End() { ended_.Add(); }
  /// Exact when no request comes or goes meanwhile.
  uint64_t InFlight() const {
    const uint64_t ended = ended_.Value();
    const uint64_t begun = begun_.Value();
    return begun > ended ? begun - ended : 0;
  }

 private:
  observe::Counter begun_, ended_;
};

}  // namespace stoker::host
