#include "dynamic/batch_former.h"

#include <algorithm>

namespace stoker::batching::internal {
namespace {

std::vector<int64_t> PreferredSizes(const DynamicConfig& config) {
  std::vector<int64_t> sizes = config.preferred_batch_sizes;
  if (sizes.empty()) sizes.push_back(config.max_batch_size);
  std::sort(sizes.begin(), sizes.end());
  return sizes;
}

}  // namespace

BatchFormer::BatchFormer(const DynamicConfig& config)
    : alone_(!config.batching || config.max_batch_size == 0),
      look_past_shapes_(config.look_past_shapes),
      delay_ns_(alone_ ? 0 : config.max_queue_delay_ns),
      max_rows_(config.max_batch_size),
      preferred_(PreferredSizes(config)) {}

std::optional<BatchFormer::End> BatchFormer::Form(const RequestQueue& queue, Entry* leader, bool leader_first,
                                                  int64_t now) {
  entries_.clear();
  if (alone_) {
    entries_.push_back(leader);
    return End{1, CloseReason::kUnbatched};
  }
  rows_ = 0;
  preferred_count_ = 0;
  oldest_ns_ = hold_ns_ = kNever;
  overflows_ = other_shape_ = false;
  Entry* first = leader_first ? leader : nullptr;
  if (look_past_shapes_) {
    Reach(Walker<GroupList>(leader->group->lanes), first);
  } else {
    Reach(Walker<LaneList>(queue.lanes()), first);
  }
  return FindEnd(now);
}

template <typename List>
void BatchFormer::Reach(Walker<List> line, Entry* first) {
  if (first != nullptr) Consider(first);
  for (Entry* entry = line.Next(); entry != nullptr; entry = line.Next()) {
    if (entry != first && !Consider(entry)) return;
  }
}

/// False: the batch cannot reach `entry`.
bool BatchFormer::Consider(Entry* entry) {
  if (!entries_.empty()) {
    other_shape_ = entry->group != entries_.front()->group;
    if (other_shape_) return false;
    overflows_ = rows_ + entry->rows > max_rows_;
    if (overflows_) return false;
    if (preferred_count_ == 0 && rows_ + entry->rows > preferred_.back()) preferred_count_ = entries_.size();
  }
  entries_.push_back(entry);
  rows_ += entry->rows;
  oldest_ns_ = std::min(oldest_ns_, entry->arrival_ns);
  hold_ns_ = std::min(hold_ns_, entry->hold_ns);
  if (std::binary_search(preferred_.begin(), preferred_.end(), rows_)) preferred_count_ = entries_.size();
  return true;
}

std::optional<BatchFormer::End> BatchFormer::FindEnd(int64_t now) const {
  const size_t all = entries_.size();
  const bool delayed = delay_ns_ > 0 && now - oldest_ns_ >= delay_ns_;
  const bool held = hold_ns_ <= now;
  if (preferred_count_ > 0 && !delayed && !held) {
    const bool full = preferred_count_ == all && (overflows_ || rows_ == max_rows_);
    return End{preferred_count_, full ? CloseReason::kFull : CloseReason::kPreferred};
  }
  if (overflows_ || rows_ == max_rows_) return End{all, CloseReason::kFull};
  if (other_shape_) return End{all, CloseReason::kShape};
  if (delayed) return End{all, CloseReason::kDelay};
  if (held) return End{all, CloseReason::kDeadline};
  if (rows_ >= preferred_.back()) return End{all, CloseReason::kPreferred};
  if (delay_ns_ == 0) return End{all, CloseReason::kSlotFree};
  return std::nullopt;
}

}  // namespace stoker::batching::internal
