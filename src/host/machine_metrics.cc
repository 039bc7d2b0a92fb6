#include "machine_metrics.h"

#include <fstream>
#include <sstream>
#include <string>

#include <stoker/base/mutex.h>

namespace stoker::host {
namespace {

constexpr int64_t kShortestNs = 100'000'000;  // between two readings of the cores' use
constexpr double kKib = 1024;

struct Ticks {
  double busy = 0;
  double total = 0;
};

// The first line of /proc/stat: user nice system idle iowait irq softirq steal …
Ticks ReadTicks() {
  std::ifstream file("/proc/stat");
  std::string word;
  file >> word;
  Ticks out;
  double value = 0;
  for (int field = 0; field < 8 && file >> value; ++field) {
    out.total += value;
    if (field != 3 && field != 4) out.busy += value;
  }
  return out;
}

double ReadMemory(const std::string& wanted) {
  std::ifstream file("/proc/meminfo");
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string name;
    double kib = 0;
    if (words >> name >> kib && name == wanted) return kib * kKib;
  }
  return 0;
}

}  // namespace

struct MachineMetrics::Meter {
  explicit Meter(base::Clock* c) : clock(c) {}

  double Utilization() {
    base::MutexLock lock(&mutex);
    const int64_t now = clock->NowNs();
    if (read_ns != 0 && now - read_ns < kShortestNs) return utilization;
    const Ticks ticks = ReadTicks();
    const double total = ticks.total - last.total;
    if (total > 0) utilization = (ticks.busy - last.busy) / total;
    last = ticks;
    read_ns = now;
    return utilization;
  }

  base::Clock* const clock;
  base::Mutex mutex;
  Ticks last GUARDED_BY(mutex);
  double utilization GUARDED_BY(mutex) = 0;
  int64_t read_ns GUARDED_BY(mutex) = 0;
};

MachineMetrics::MachineMetrics(observe::Registry* registry, base::Clock* clock)
    : meter_(std::make_shared<Meter>(clock)) {
  using observe::MetricType;
  registry->Declare("nv_cpu_utilization", MetricType::kGauge, "CPU utilization rate [0.0 - 1.0]");
  registry->Declare("nv_cpu_memory_total_bytes", MetricType::kGauge, "CPU total memory (RAM), in bytes");
  registry->Declare("nv_cpu_memory_used_bytes", MetricType::kGauge, "CPU used memory (RAM), in bytes");
  callbacks_.push_back(
      registry->AddCallback("nv_cpu_utilization", {}, [meter = meter_] { return meter->Utilization(); }));
  callbacks_.push_back(
      registry->AddCallback("nv_cpu_memory_total_bytes", {}, [] { return ReadMemory("MemTotal:"); }));
  callbacks_.push_back(registry->AddCallback(
      "nv_cpu_memory_used_bytes", {}, [] { return ReadMemory("MemTotal:") - ReadMemory("MemAvailable:"); }));
}

MachineMetrics::~MachineMetrics() = default;

}  // namespace stoker::host
