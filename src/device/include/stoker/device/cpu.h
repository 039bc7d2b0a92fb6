#pragma once

#include <cstdint>
#include <string>

namespace stoker::device {

/// Where the facts are read; tests give folders of their own.
struct CpuSources {
  std::string proc = "/proc";
  std::string cgroup = "/sys/fs/cgroup";
  int affinity_cores = 0;  // 0: ask the kernel
};

/// What this process may use, not what the machine has: the least of affinity, control groups (v1 and
/// v2, of all levels) and hardware.
struct CpuGrant {
  int cores = 1;  // at least 1; a quota of 1.5 cores counts as 2
  uint64_t memory_bytes = 0;
  std::string limited_by;  // "cores by cgroup, memory by cgroup"; empty when the machine is the limit
};
CpuGrant GrantedCpu(const CpuSources& sources = {});

/// The processor's own name, "" when the kernel does not tell.
std::string CpuName(const CpuSources& sources = {});
/// The highest of the levels "x86-64-v2", "-v3", "-v4" that the processor has; "x86-64" below.
std::string CpuLevel();

}  // namespace stoker::device
