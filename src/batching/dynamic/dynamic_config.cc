#include <limits>

#include <stoker/base/str_cat.h>
#include <stoker/batching/dynamic.h>

namespace stoker::batching {
namespace {

using base::InvalidArgument;
using base::StrCat;

base::Status CheckNotNegative(const char* field, int64_t value) {
  if (value >= 0) return base::OkStatus();
  return InvalidArgument(StrCat("dynamic batching: ", field, " is ", value, ", must not be negative"));
}

base::Status CheckPolicy(const QueuePolicy& policy, const DynamicConfig& config) {
  STOKER_RETURN_IF_ERROR(CheckNotNegative("default_timeout_microseconds", policy.default_timeout_ns));
  STOKER_RETURN_IF_ERROR(CheckNotNegative("max_queue_size", policy.max_queue_size));
  if (config.preserve_ordering && policy.delay_on_timeout) {
    return InvalidArgument(
        "dynamic batching: a queue policy with timeout_action DELAY reorders requests, which "
        "preserve_ordering "
        "forbids; drop one of them");
  }
  return base::OkStatus();
}

base::Status CheckLevels(const DynamicConfig& config) {
  const uint64_t levels = config.priority_levels;
  const uint64_t level = config.default_priority_level;
  if (levels > 0 && (level < 1 || level > levels)) {
    return InvalidArgument(StrCat("dynamic batching: default_priority_level is ", level,
                                  ", must be within 1 and ", levels, " (priority_levels)"));
  }
  if (levels > 1 && config.preserve_ordering) {
    return InvalidArgument(StrCat("dynamic batching: priority_levels is ", levels,
                                  ", but preserve_ordering allows no more than one; drop one of them"));
  }
  for (const auto& [key, policy] : config.level_policies) {
    if (key < 1 || key > levels) {
      return InvalidArgument(StrCat("dynamic batching: priority_queue_policy names level ", key,
                                    ", must be within 1 and ", levels, " (priority_levels)"));
    }
    STOKER_RETURN_IF_ERROR(CheckPolicy(policy, config));
  }
  return CheckPolicy(config.default_policy, config);
}

base::Status CheckOwnSettings(const DynamicConfig& config) {
  STOKER_RETURN_IF_ERROR(CheckNotNegative("ageing_limit", config.ageing_limit_ns));
  if (config.queue_cap_requests < 1 || config.queue_cap_rows < 1) {
    return InvalidArgument(StrCat("dynamic batching: the queue may hold ", config.queue_cap_requests,
                                  " requests and ", config.queue_cap_rows,
                                  " rows, must be at least 1 of each"));
  }
  return base::OkStatus();
}

}  // namespace

base::Status ValidateDynamicConfig(const DynamicConfig& config) {
  STOKER_RETURN_IF_ERROR(CheckNotNegative("max_batch_size", config.max_batch_size));
  STOKER_RETURN_IF_ERROR(CheckNotNegative("max_queue_delay_microseconds", config.max_queue_delay_ns));
  if (config.max_batch_size > std::numeric_limits<int32_t>::max()) {
    return InvalidArgument(StrCat("dynamic batching: max_batch_size is ", config.max_batch_size,
                                  ", must be at most ", std::numeric_limits<int32_t>::max()));
  }
  for (int64_t size : config.preferred_batch_sizes) {
    if (size < 1 || size > config.max_batch_size) {
      return InvalidArgument(StrCat("dynamic batching: preferred_batch_size is ", size,
                                    ", must be within 1 and ", config.max_batch_size, " (max_batch_size)"));
    }
  }
  STOKER_RETURN_IF_ERROR(CheckLevels(config));
  return CheckOwnSettings(config);
}

const char* CloseReasonName(CloseReason reason) {
  switch (reason) {
    case CloseReason::kFull:
      return "full";
    case CloseReason::kPreferred:
      return "preferred";
    case CloseReason::kDelay:
      return "delay";
    case CloseReason::kSlotFree:
      return "slot_free";
    case CloseReason::kShape:
      return "shape";
    case CloseReason::kDeadline:
      return "deadline";
    case CloseReason::kUnbatched:
      return "unbatched";
  }
  return "unknown";
}

base::Status DropStatus(const Drop& drop) {
  const int64_t waited_us = drop.waited_ns / 1000;
  const int64_t limit_us = drop.limit_ns / 1000;
  if (drop.deadline) {
    return base::DeadlineExceeded(StrCat("Deadline passed before the request could run: it waited ",
                                         waited_us, " us and had ", limit_us, " us; allow it more time"));
  }
  return base::Unavailable(StrCat("Request timeout expired: it waited ", waited_us,
                                  " us in the queue, limit ", limit_us,
                                  " us; send it again later or allow it more time"));
}

}  // namespace stoker::batching
