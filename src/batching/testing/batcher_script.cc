#include "testing/batcher_script.h"

#include <sstream>
#include <utility>

#include <gtest/gtest.h>

namespace stoker::batching {
namespace {

/// "full 1,2" for a plan, "timeout 3" for a drop, "wake 5" (ms) where one is due; joined by "; ".
std::string Text(const Decision& decision) {
  std::vector<std::string> parts;
  for (const Drop& drop : decision.drops) {
    parts.push_back((drop.deadline ? "deadline " : "timeout ") + std::to_string(drop.ticket));
  }
  if (decision.has_plan()) {
    std::string plan =
        std::string(decision.plan.led_by_aged ? "aged " : "") + CloseReasonName(decision.plan.reason) + " ";
    for (size_t i = 0; i < decision.plan.tickets.size(); ++i) {
      plan += (i > 0 ? "," : "") + std::to_string(decision.plan.tickets[i]);
    }
    parts.push_back(plan);
  }
  if (decision.wake_at_ns != kNever) {
    std::ostringstream wake;
    wake << "wake " << static_cast<double>(decision.wake_at_ns) / kMs;
    parts.push_back(wake.str());
  }
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : "; ") + part;
  return text.empty() ? "nothing" : text;
}

std::string Play(DynamicBatcher* batcher, const std::string& line, double* now_ms) {
  std::istringstream words(line);
  std::string word;
  words >> word;
  if (word == "at") {
    words >> *now_ms >> word;
  }
  const int64_t now = static_cast<int64_t>(*now_ms * kMs);
  if (word == "add") {
    Arrival arrival;
    words >> arrival.ticket;
    while (words >> word) {
      const size_t equals = word.find('=');
      const std::string key = word.substr(0, equals);
      const double value = std::stod(word.substr(equals + 1));
      if (key == "rows") arrival.rows = static_cast<int64_t>(value);
      if (key == "shape") arrival.shape_key = static_cast<uint64_t>(value);
      if (key == "level") arrival.priority = static_cast<uint64_t>(value);
      if (key == "timeout") arrival.timeout_ns = static_cast<int64_t>(value * kMs);
      if (key == "deadline") arrival.deadline_ns = static_cast<int64_t>(value * kMs);
    }
    const base::Status status = batcher->Enqueue(arrival, now);
    return status.ok() ? "" : std::string(base::StatusCodeName(status.code()));
  }
  if (word == "cancel") {
    Ticket ticket = 0;
    words >> ticket;
    return batcher->Cancel(ticket) ? "" : "not queued";
  }
  Decision decision;
  if (word == "next") {
    batcher->Next(now, &decision);
  } else if (word == "poll") {
    batcher->Poll(now, &decision);
  } else {
    return "unknown word " + word;
  }
  return Text(decision);
}

}  // namespace

void RunScript(const DynamicConfig& config, const std::vector<Step>& steps) {
  auto batcher = DynamicBatcher::Make(config);
  ASSERT_TRUE(batcher.ok()) << batcher.status().ToString();
  double now_ms = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    EXPECT_EQ(Play(&*batcher, steps[i].line, &now_ms), steps[i].want)
        << "step " << i << ": " << steps[i].line;
  }
}

DynamicConfig Batching(int64_t max_batch_size, double delay_ms, std::vector<int64_t> preferred) {
  DynamicConfig config;
  config.max_batch_size = max_batch_size;
  config.batching = true;
  config.max_queue_delay_ns = static_cast<int64_t>(delay_ms * kMs);
  config.preferred_batch_sizes = std::move(preferred);
  return config;
}

DynamicConfig WithPolicy(DynamicConfig config, QueuePolicy policy) {
  config.default_policy = policy;
  return config;
}

DynamicConfig WithLevels(DynamicConfig config, uint64_t levels, uint64_t default_level) {
  config.priority_levels = levels;
  config.default_priority_level = default_level;
  return config;
}

}  // namespace stoker::batching
