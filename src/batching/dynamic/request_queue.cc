#include "dynamic/request_queue.h"

#include <algorithm>

#include <stoker/base/check.h>

namespace stoker::batching::internal {
namespace {

template <typename List>
void Leave(Lanes<List>* lanes, Entry* entry) {
  const auto lane = lanes->find({entry->level, entry->delayed});
  lane->second.Remove(entry);
  if (lane->second.size == 0 && lanes->size() > kKeptEmpty) lanes->erase(lane);
}

}  // namespace

RequestQueue::~RequestQueue() = default;

Entry* RequestQueue::Allocate() {
  if (free_entries_.empty()) {
    chunks_.push_back(std::make_unique<Entry[]>(kChunkEntries));
    for (size_t i = kChunkEntries; i-- > 0;) free_entries_.push_back(&chunks_.back()[i]);
  }
  Entry* entry = free_entries_.back();
  free_entries_.pop_back();
  return entry;
}

Group* RequestQueue::GroupFor(uint64_t shape_key) {
  Group* group = groups_.Find(shape_key);
  if (group != nullptr) return group;
  if (free_groups_.empty()) {
    group_pool_.push_back(std::make_unique<Group>());
    free_groups_.push_back(group_pool_.back().get());
  }
  group = free_groups_.back();
  free_groups_.pop_back();
  group->shape_key = shape_key;
  groups_.Insert(shape_key, group);
  return group;
}

void RequestQueue::EnterLane(Entry* entry) {
  entry->order = next_order_++;
  const LaneKey key{entry->level, entry->delayed};
  lanes_[key].PushBack(entry);
  entry->group->lanes[key].PushBack(entry);
}

void RequestQueue::LeaveLane(Entry* entry) {
  Leave(&lanes_, entry);
  Leave(&entry->group->lanes, entry);
}

void RequestQueue::AddRows(Group* group, int64_t rows) {
  rows_ += rows;
  group->rows += rows;
  const bool ample = group->rows >= ample_rows_;
  if (ample == group->ample) return;
  group->ample = ample;
  if (ample) {
    group->ample_previous = ample_tail_;
    group->ample_next = nullptr;
    (ample_tail_ == nullptr ? ample_head_ : ample_tail_->ample_next) = group;
    ample_tail_ = group;
  } else {
    Group* previous = group->ample_previous;
    Group* next = group->ample_next;
    (previous == nullptr ? ample_head_ : previous->ample_next) = next;
    (next == nullptr ? ample_tail_ : next->ample_previous) = previous;
  }
}

void RequestQueue::Add(const Entry& request, uint64_t shape_key) {
  Entry* entry = Allocate();
  *entry = request;
  entry->group = GroupFor(shape_key);
  EnterLane(entry);
  all_.PushBack(entry);
  tickets_.Insert(entry->ticket, entry);
  if (entry->expiry_ns != kNever) expiry_.Push(entry);
  if (entry->hold_ns != kNever) hold_.Push(entry);
  AddRows(entry->group, entry->rows);
}

void RequestQueue::Remove(Entry* entry) {
  Group* group = entry->group;
  expiry_.Remove(entry);
  hold_.Remove(entry);
  LeaveLane(entry);
  all_.Remove(entry);
  tickets_.Erase(entry->ticket);
  AddRows(group, -entry->rows);
  if (group->rows == 0 && groups_.size() > kKeptGroups) {
    groups_.Erase(group->shape_key);
    free_groups_.push_back(group);
  }
  free_entries_.push_back(entry);
  if (all_.size == 0) Trim();
}

void RequestQueue::Delay(Entry* entry) {
  CHECK(!entry->delayed);
  expiry_.Remove(entry);
  LeaveLane(entry);
  entry->delayed = true;
  entry->timeout_ns = kNever;
  entry->expiry_ns = entry->deadline_ns;
  EnterLane(entry);
  if (entry->expiry_ns != kNever) expiry_.Push(entry);
}

int64_t RequestQueue::LevelSize(uint64_t level) const {
  int64_t size = 0;
  for (auto lane = lanes_.lower_bound({level, false}); lane != lanes_.end() && lane->first.level == level;
       ++lane) {
    size += lane->second.size;
  }
  return size;
}

/// Nobody waits: what a burst took is given back.
void RequestQueue::Trim() {
  tickets_.Trim();
  groups_.Trim();
  expiry_.Trim();
  hold_.Trim();
  if (chunks_.size() > kKeptChunks) {
    chunks_.resize(kKeptChunks);
    std::vector<Entry*> kept;
    for (const auto& chunk : chunks_) {
      for (size_t i = 0; i < kChunkEntries; ++i) kept.push_back(&chunk[i]);
    }
    free_entries_.swap(kept);
  }
  if (group_pool_.size() > 2 * kKeptGroups) {
    std::erase_if(group_pool_, [this](const std::unique_ptr<Group>& group) {
      return groups_.Find(group->shape_key) != group.get();
    });
    free_groups_ = {};
  }
}

}  // namespace stoker::batching::internal
