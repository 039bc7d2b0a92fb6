#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace stoker::batching::internal {

/// Map from a 64-bit key to a non-null pointer: open addressing, linear probing, erasure without
/// tombstones. Keys are our own numbers (not chosen by a peer), so multiplicative hashing will do.
template <typename T>
class FlatIndex {
 public:
  T* Find(uint64_t key) const {
    for (size_t i = Home(key);; i = (i + 1) & mask_) {
      if (cells_[i].value == nullptr || cells_[i].key == key) return cells_[i].value;
    }
  }

  /// `key` must not be present.
  void Insert(uint64_t key, T* value) {
    if ((size_ + 1) * 2 > cells_.size()) Resize(cells_.size() * 2);
    Place(key, value);
    ++size_;
  }

  /// `key` must be present.
  void Erase(uint64_t key) {
    size_t hole = Home(key);
    while (cells_[hole].key != key || cells_[hole].value == nullptr) hole = (hole + 1) & mask_;
    for (size_t i = (hole + 1) & mask_; cells_[i].value != nullptr; i = (i + 1) & mask_) {
      // A cell may fill the hole unless its home lies behind the hole.
      if (((i - Home(cells_[i].key)) & mask_) >= ((i - hole) & mask_)) {
        cells_[hole] = cells_[i];
        hole = i;
      }
    }
    cells_[hole].value = nullptr;
    --size_;
  }

  size_t size() const { return size_; }

  /// Gives memory back after a burst; call when empty.
  void Trim() {
    if (size_ == 0 && cells_.size() > kLargestKept) Resize(kSmallest);
  }

 private:
  static constexpr size_t kSmallest = 16;
  static constexpr size_t kLargestKept = 4096;
  struct Cell {
    uint64_t key = 0;
    T* value = nullptr;
  };

  size_t Home(uint64_t key) const { return (key * 0x9E3779B97F4A7C15u) >> shift_; }
  void Place(uint64_t key, T* value) {
    size_t i = Home(key);
    while (cells_[i].value != nullptr) i = (i + 1) & mask_;
    cells_[i] = {key, value};
  }
  void Resize(size_t count) {
    std::vector<Cell> old = std::exchange(cells_, std::vector<Cell>(count));
    mask_ = count - 1;
    shift_ = 64 - __builtin_ctzll(count);
    for (const Cell& cell : old) {
      if (cell.value != nullptr) Place(cell.key, cell.value);
    }
  }

  std::vector<Cell> cells_ = std::vector<Cell>(kSmallest);
  size_t mask_ = kSmallest - 1;
  int shift_ = 60;
  size_t size_ = 0;
};

}  // namespace stoker::batching::internal
