#include <stoker/device/cpu.h>

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <limits>
#include <memory>
#include <optional>
#include <sstream>
#include <string_view>
#include <vector>

#include <stoker/base/str_cat.h>

namespace stoker::device {
namespace {

std::string ReadText(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream out;
  out << file.rdbuf();
  return out.str();
}

// The first word of `text` from `at` on as a number; nothing for "max" and other words.
std::optional<int64_t> Number(const std::string& text, int word) {
  std::istringstream words(text);
  std::string token;
  for (int i = 0; i <= word; ++i) {
    if (!(words >> token)) return std::nullopt;
  }
  int64_t value = 0;
  const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), value);
  if (error != std::errc() || end != token.data() + token.size()) return std::nullopt;
  return value;
}

struct Limits {
  double cores = std::numeric_limits<double>::infinity();
  uint64_t memory = std::numeric_limits<uint64_t>::max();
};

void TakeQuota(std::optional<int64_t> quota, std::optional<int64_t> period, Limits* limits) {
  if (!quota || !period || *quota <= 0 || *period <= 0) return;
  limits->cores = std::min(limits->cores, static_cast<double>(*quota) / static_cast<double>(*period));
}

void TakeMemory(std::optional<int64_t> bytes, Limits* limits) {
  if (bytes && *bytes > 0) limits->memory = std::min(limits->memory, static_cast<uint64_t>(*bytes));
}

// Visits a group and all above it: the tightest limit counts. Inside a container the path may point
// outside of what is mounted; then the mounted root stands for it.
template <typename Visit>
void EachLevel(const std::string& root, std::string path, Visit&& visit) {
  for (;;) {
    visit(root + path);
    if (path.empty() || path == "/") return;
    path.erase(path.rfind('/'));
  }
}

void ReadUnified(const std::string& root, const std::string& path, Limits* limits) {
  EachLevel(root, path, [limits](const std::string& group) {
    const std::string quota = ReadText(group + "/cpu.max");
    TakeQuota(Number(quota, 0), Number(quota, 1), limits);
    TakeMemory(Number(ReadText(group + "/memory.max"), 0), limits);
  });
}

void ReadOld(const std::string& root, std::string_view controllers, const std::string& path, Limits* limits) {
  std::istringstream names{std::string(controllers)};
  for (std::string name; std::getline(names, name, ',');) {
    if (name == "cpu") {
      for (const char* folder : {"/cpu", "/cpu,cpuacct", "/cpuacct,cpu"}) {
        EachLevel(root + folder, path, [limits](const std::string& group) {
          TakeQuota(Number(ReadText(group + "/cpu.cfs_quota_us"), 0),
                    Number(ReadText(group + "/cpu.cfs_period_us"), 0), limits);
        });
      }
    } else if (name == "memory") {
      EachLevel(root + "/memory", path, [limits](const std::string& group) {
        TakeMemory(Number(ReadText(group + "/memory.limit_in_bytes"), 0), limits);
      });
    }
  }
}

Limits ReadLimits(const CpuSources& sources) {
  Limits limits;
  std::istringstream lines(ReadText(sources.proc + "/self/cgroup"));
  for (std::string line; std::getline(lines, line);) {  // hierarchy:controllers:path
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (path.find("..") != std::string::npos) continue;
    if (controllers.empty()) {
      ReadUnified(sources.cgroup, path, &limits);
      ReadUnified(sources.cgroup + "/unified", path, &limits);
    } else {
      ReadOld(sources.cgroup, controllers, path, &limits);
    }
  }
  return limits;
}

int AffinityCores() {
  // Machines may have more cores than the usual set holds.
  for (int size = 1024; size <= 1 << 20; size *= 4) {
    cpu_set_t* set = CPU_ALLOC(static_cast<size_t>(size));
    if (set == nullptr) break;
    const size_t bytes = CPU_ALLOC_SIZE(static_cast<size_t>(size));
    const int count = sched_getaffinity(0, bytes, set) == 0 ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (count > 0) return count;
  }
  return static_cast<int>(std::max<long>(sysconf(_SC_NPROCESSORS_ONLN), 1));
}

// The value of a line "name: value" of a file such as /proc/cpuinfo.
std::string Field(const std::string& path, std::string_view name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos || !std::string_view(line).starts_with(name)) continue;
    const size_t start = line.find_first_not_of(" \t", colon + 1);
    return start == std::string::npos ? "" : line.substr(start);
  }
  return "";
}

}  // namespace

CpuGrant GrantedCpu(const CpuSources& sources) {
  const Limits limits = ReadLimits(sources);
  const int affinity = std::max(sources.affinity_cores > 0 ? sources.affinity_cores : AffinityCores(), 1);
  const uint64_t total =
      static_cast<uint64_t>(Number(Field(sources.proc + "/meminfo", "MemTotal"), 0).value_or(0)) * 1024;
  CpuGrant grant;
  grant.cores = affinity;
  if (limits.cores < affinity) {
    grant.cores = std::max(1, static_cast<int>(limits.cores + 0.999));
    grant.limited_by = "cores by cgroup";
  }
  grant.memory_bytes = total;
  if (total == 0 ? limits.memory != std::numeric_limits<uint64_t>::max() : limits.memory < total) {
    grant.memory_bytes = limits.memory;
    grant.limited_by += grant.limited_by.empty() ? "memory by cgroup" : ", memory by cgroup";
  }
  return grant;
}

std::string CpuName(const CpuSources& sources) { return Field(sources.proc + "/cpuinfo", "model name"); }

std::string CpuLevel() {
  __builtin_cpu_init();
  const bool v2 =
      __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("ssse3") && __builtin_cpu_supports("popcnt");
  const bool v3 = v2 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
                  __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma");
  const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vl");
  if (v4) return "x86-64-v4";
  if (v3) return "x86-64-v3";
  return v2 ? "x86-64-v2" : "x86-64";
}

}  // namespace stoker::device
