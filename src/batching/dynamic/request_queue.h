#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include <stoker/batching/dynamic.h>

#include "dynamic/flat_index.h"
#include "dynamic/indexed_heap.h"

/// The waiting requests and every order in which the rules look at them. No rule lives here.
namespace stoker::batching::internal {

struct Entry;
struct Group;

struct Links {
  Entry* previous = nullptr;
  Entry* next = nullptr;
};

/// A waiting request. The first block is the caller's, the second the queue's.
struct Entry {
  Ticket ticket = 0;
  int64_t rows = 0;
  uint64_t level = 0;
  int64_t arrival_ns = 0;
  int64_t timeout_ns = kNever;   ///< absolute; kNever: none, or it has passed and the request is delayed
  int64_t deadline_ns = kNever;  ///< absolute
  int64_t expiry_ns = kNever;    ///< the earlier of both
  int64_t hold_ns = kNever;      ///< until when it may wait for company, if that is before the delay ends

  bool delayed = false;
  uint64_t order = 0;  ///< place in its lane; grows
  Group* group = nullptr;
  Links in_lane, in_group, in_all;
  uint32_t expiry_place = kNotInHeap;
  uint32_t hold_place = kNotInHeap;
};

/// Doubly linked through a member of the entries, so that anyone leaves in O(1).
template <Links Entry::*Link>
struct EntryList {
  Entry* head = nullptr;
  Entry* tail = nullptr;
  int64_t size = 0;

  static Entry* Next(const Entry* entry) { return (entry->*Link).next; }
  void PushBack(Entry* entry) {
    entry->*Link = {tail, nullptr};
    (tail == nullptr ? head : (tail->*Link).next) = entry;
    tail = entry;
    ++size;
  }
  void Remove(Entry* entry) {
    const Links links = entry->*Link;
    (links.previous == nullptr ? head : (links.previous->*Link).next) = links.next;
    (links.next == nullptr ? tail : (links.next->*Link).previous) = links.previous;
    --size;
  }
};
using LaneList = EntryList<&Entry::in_lane>;
using GroupList = EntryList<&Entry::in_group>;
using AllList = EntryList<&Entry::in_all>;

/// A lane is a level's requests in time, or its delayed ones. Lanes are served in this order.
struct LaneKey {
  uint64_t level;
  bool delayed;
  auto operator<=>(const LaneKey&) const = default;
};
/// Up to kKeptEmpty lists stay when they run empty, so that a steady flow does not allocate.
template <typename List>
using Lanes = std::map<LaneKey, List>;
inline constexpr size_t kKeptEmpty = 8;

/// The waiting requests of one shape.
struct Group {
  uint64_t shape_key = 0;
  int64_t rows = 0;
  Lanes<GroupList> lanes;
  bool ample = false;  ///< on the list of groups with at least ample_rows rows
  Group* ample_previous = nullptr;
  Group* ample_next = nullptr;
};

/// Goes through lanes in order of service.
template <typename List>
class Walker {
 public:
  explicit Walker(const Lanes<List>& lanes) : lane_(lanes.begin()), end_(lanes.end()) {}
  /// nullptr at the end.
  Entry* Next() {
    if (entry_ != nullptr) entry_ = List::Next(entry_);
    while (entry_ == nullptr && lane_ != end_) entry_ = (lane_++)->second.head;
    return entry_;
  }

 private:
  typename Lanes<List>::const_iterator lane_, end_;
  Entry* entry_ = nullptr;
};

/// Owns the entries. All calls O(1), or O(log n) where a heap or an unusual number of levels is involved.
class RequestQueue {
 public:
  /// Groups of at least `ample_rows` rows are listed.
  explicit RequestQueue(int64_t ample_rows) : ample_rows_(ample_rows) {}
  ~RequestQueue();
  RequestQueue(const RequestQueue&) = delete;
  RequestQueue& operator=(const RequestQueue&) = delete;

  /// Takes over the first block of `request`, to the end of its level's lane.
  void Add(const Entry& request, uint64_t shape_key);
  void Remove(Entry* entry);
  /// To the end of its level's delayed lane; its timeout is spent.
  void Delay(Entry* entry);

  Entry* Find(Ticket ticket) const { return tickets_.Find(ticket); }
  size_t size() const { return static_cast<size_t>(all_.size); }
  int64_t rows() const { return rows_; }
  int64_t LevelSize(uint64_t level) const;

  const Lanes<LaneList>& lanes() const { return lanes_; }
  /// The first in line; nullptr: nobody waits.
  Entry* First() const { return Walker<LaneList>(lanes_).Next(); }
  Entry* Oldest() const { return all_.head; }
  Entry* NextToExpire() const { return expiry_.top(); }
  Entry* NextToHold() const { return hold_.top(); }
  Group* FirstAmple() const { return ample_head_; }

 private:
  static constexpr size_t kChunkEntries = 256;
  static constexpr size_t kKeptChunks = 8;
  static constexpr size_t kKeptGroups = 64;

  Entry* Allocate();
  Group* GroupFor(uint64_t shape_key);
  void EnterLane(Entry* entry);
  void LeaveLane(Entry* entry);
  void AddRows(Group* group, int64_t rows);
  void Trim();

  const int64_t ample_rows_;
  int64_t rows_ = 0;
  uint64_t next_order_ = 0;
  Lanes<LaneList> lanes_;
  AllList all_;  ///< by arrival
  FlatIndex<Entry> tickets_;
  FlatIndex<Group> groups_;
  IndexedHeap<Entry, &Entry::expiry_ns, &Entry::expiry_place> expiry_;
  IndexedHeap<Entry, &Entry::hold_ns, &Entry::hold_place> hold_;
  Group* ample_head_ = nullptr;  ///< doubly linked, in order of becoming ample
  Group* ample_tail_ = nullptr;

  std::vector<std::unique_ptr<Entry[]>> chunks_;
  std::vector<Entry*> free_entries_;
  std::vector<std::unique_ptr<Group>> group_pool_;  ///< all groups that exist
  std::vector<Group*> free_groups_;
};

}  // namespace stoker::batching::internal
