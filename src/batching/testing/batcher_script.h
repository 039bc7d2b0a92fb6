#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <stoker/batching/dynamic.h>

/// Tests as scripts of arrivals, cancellations and questions in virtual time.
namespace stoker::batching {

inline constexpr int64_t kMs = 1'000'000;

/// `line` is, optionally after "at MS" to set the time, one of
///   add TICKET [rows=R] [shape=S] [level=P] [timeout=MS] [deadline=MS]   gives "" or the error's code
///   cancel TICKET                                                       gives "" or "not queued"
///   next | poll                                                         gives the decision
/// A decision reads "timeout 3; full 1,2; wake 5": drops, the plan with its reason, and when to ask
/// again in ms, each only where there is one; else "nothing".
struct Step {
  std::string line;
  std::string want = "";
};
void RunScript(const DynamicConfig& config, const std::vector<Step>& steps);

DynamicConfig Batching(int64_t max_batch_size, double delay_ms = 0, std::vector<int64_t> preferred = {});
DynamicConfig WithPolicy(DynamicConfig config, QueuePolicy policy);
DynamicConfig WithLevels(DynamicConfig config, uint64_t levels, uint64_t default_level);

}  // namespace stoker::batching
