#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace stoker::batching::internal {

inline constexpr uint32_t kNotInHeap = UINT32_MAX;

/// Binary heap of T*, least (Key, order) first, where every element knows its place (Place), so
/// that any of them leaves in O(log n). T has a number `order` that tells equal keys apart.
template <typename T, int64_t T::*Key, uint32_t T::*Place>
class IndexedHeap {
 public:
  T* top() const { return items_.empty() ? nullptr : items_.front(); }

  void Push(T* item) {
    items_.push_back(item);
    Up(items_.size() - 1, item);
  }

  /// Does nothing when `item` is not in here.
  void Remove(T* item) {
    const uint32_t place = item->*Place;
    if (place == kNotInHeap) return;
    item->*Place = kNotInHeap;
    T* last = items_.back();
    items_.pop_back();
    if (last == item) return;
    if (place > 0 && Before(last, items_[(place - 1) / 2])) {
      Up(place, last);
    } else {
      Down(place, last);
    }
  }

  /// Gives memory back after a burst; call when empty.
  void Trim() {
    if (items_.empty() && items_.capacity() > kLargestKept) items_.shrink_to_fit();
  }

 private:
  static constexpr size_t kLargestKept = 4096;

  static bool Before(const T* a, const T* b) {
    return a->*Key != b->*Key ? a->*Key < b->*Key : a->order < b->order;
  }
  void Set(size_t place, T* item) {
    items_[place] = item;
    item->*Place = static_cast<uint32_t>(place);
  }
  void Up(size_t place, T* item) {
    while (place > 0 && Before(item, items_[(place - 1) / 2])) {
      Set(place, items_[(place - 1) / 2]);
      place = (place - 1) / 2;
    }
    Set(place, item);
  }
  void Down(size_t place, T* item) {
    while (place * 2 + 1 < items_.size()) {
      size_t child = place * 2 + 1;
      if (child + 1 < items_.size() && Before(items_[child + 1], items_[child])) ++child;
      if (!Before(items_[child], item)) break;
      Set(place, items_[child]);
      place = child;
    }
    Set(place, item);
  }

  std::vector<T*> items_;
};

}  // namespace stoker::batching::internal
