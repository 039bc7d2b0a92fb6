#include "batching_config.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <string>

#include <stoker/base/clock.h>
#include <stoker/base/str_cat.h>

namespace stoker::host {
namespace {

constexpr std::string_view kLookPastShapes = "stoker.look_past_shapes";
constexpr std::string_view kStartBeforeTimeout = "stoker.start_before_timeout";
constexpr std::string_view kAgeingLimitMs = "stoker.ageing_limit_ms";
constexpr std::array<std::string_view, 3> kParameters = {kLookPastShapes, kStartBeforeTimeout,
                                                         kAgeingLimitMs};

int64_t FromUs(uint64_t us) {
  constexpr uint64_t kMax = std::numeric_limits<int64_t>::max() / base::kNsPerUs;
  return static_cast<int64_t>(std::min(us, kMax)) * base::kNsPerUs;
}

batching::QueuePolicy Policy(const QueuePolicyConfig& config) {
  return {.delay_on_timeout = config.delay_on_timeout,
          .default_timeout_ns = FromUs(config.default_timeout_us),
          .allow_timeout_override = config.allow_timeout_override,
          .max_queue_size = config.max_queue_size};
}

base::Status Wrong(const ModelConfig& config, const std::string& key, std::string_view value,
                   std::string_view wanted) {
  return base::InvalidArgument(
      base::StrCat("model '", config.name, "': parameter '", key, "' is '", value, "', wanted ", wanted));
}

base::Status ReadBool(const ModelConfig& config, const std::string& key, bool* out) {
  const auto found = config.parameters.find(key);
  if (found == config.parameters.end()) return base::OkStatus();
  if (found->second != "true" && found->second != "false")
    return Wrong(config, key, found->second, "true or false");
  *out = found->second == "true";
  return base::OkStatus();
}

base::Status ReadMs(const ModelConfig& config, const std::string& key, int64_t* out_ns) {
  const auto found = config.parameters.find(key);
  if (found == config.parameters.end()) return base::OkStatus();
  const std::string& text = found->second;
  int64_t ms = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ms);
  constexpr int64_t kMax = int64_t{24} * 3600 * 1000;
  if (error != std::errc() || end != text.data() + text.size() || ms < 0 || ms > kMax) {
    return Wrong(config, key, text, base::StrCat("a whole number of milliseconds from 0 to ", kMax));
  }
  *out_ns = ms * base::kNsPerMs;
  return base::OkStatus();
}

}  // namespace

std::span<const std::string_view> BatchingParameters() { return kParameters; }

base::Result<batching::DynamicConfig> MakeDynamicConfig(const ModelConfig& config, size_t queue_rows_max) {
  const DynamicBatchingConfig& from = config.dynamic_batching;
  batching::DynamicConfig to;
  to.max_batch_size = config.max_batch_size;
  to.batching = config.has_dynamic_batching;
  to.queue_cap_rows = static_cast<int64_t>(
      std::min<size_t>(std::max<size_t>(queue_rows_max, 1), std::numeric_limits<int64_t>::max()));
  // One request of the largest batch always fits.
  to.queue_cap_rows = std::max(to.queue_cap_rows, config.max_batch_size);
  if (config.has_dynamic_batching) {
    to.preferred_batch_sizes = from.preferred_batch_sizes;
    to.max_queue_delay_ns = FromUs(from.max_queue_delay_us);
    to.preserve_ordering = from.preserve_ordering;
    to.priority_levels = from.priority_levels;
    to.default_priority_level = from.default_priority_level;
    to.default_policy = Policy(from.default_policy);
    for (const auto& [level, policy] : from.level_policies) to.level_policies[level] = Policy(policy);
  }
  STOKER_RETURN_IF_ERROR(ReadBool(config, std::string(kLookPastShapes), &to.look_past_shapes));
  STOKER_RETURN_IF_ERROR(ReadBool(config, std::string(kStartBeforeTimeout), &to.start_before_timeout));
  STOKER_RETURN_IF_ERROR(ReadMs(config, std::string(kAgeingLimitMs), &to.ageing_limit_ns));
  return to;
}

}  // namespace stoker::host
