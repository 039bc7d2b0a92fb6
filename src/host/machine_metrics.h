#pragma once

#include <memory>
#include <vector>

#include <stoker/base/clock.h>
#include <stoker/observe/metrics.h>

namespace stoker::host {

/// The nv_cpu_* gauges: use of the machine's cores and memory, read at each scrape. Thread-safe.
class MachineMetrics {
 public:
  MachineMetrics(observe::Registry* registry, base::Clock* clock);
  ~MachineMetrics();

 private:
  struct Meter;
  const std::shared_ptr<Meter> meter_;  // shared with the callbacks
  std::vector<std::shared_ptr<void>> callbacks_;
};

}  // namespace stoker::host
