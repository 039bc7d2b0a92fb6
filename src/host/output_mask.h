#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace stoker::host {

/// A set of output indices; the first 64 cost no allocation. A value type.
class OutputMask {
 public:
  /// Holds every index below `count`.
  static OutputMask All(size_t count) {
    OutputMask mask;
    if (count > kInline) mask.rest_.assign(count - kInline, true);
    mask.low_ = count >= kInline ? ~uint64_t{0} : (uint64_t{1} << count) - 1;
    return mask;
  }
  void Add(size_t index) {
    if (index < kInline) {
      low_ |= uint64_t{1} << index;
      return;
    }
    if (rest_.size() <= index - kInline) rest_.resize(index - kInline + 1);
    rest_[index - kInline] = true;
  }
  bool Has(size_t index) const {
    if (index < kInline) return (low_ >> index & 1) != 0;
    return index - kInline < rest_.size() && rest_[index - kInline];
  }
  void AddAll(const OutputMask& other) {
    low_ |= other.low_;
    for (size_t i = 0; i < other.rest_.size(); ++i) {
      if (other.rest_[i]) Add(i + kInline);
    }
  }

 private:
  static constexpr size_t kInline = 64;
  uint64_t low_ = 0;
  std::vector<bool> rest_;
};

}  // namespace stoker::host
