#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include <stoker/base/status.h>

namespace stoker::tensor {

/// The extents of a tensor, outermost first; -1 stands for "any" in specifications. Up to eight
/// dimensions are held without allocating. A value type.
class Shape {
 public:
  static constexpr size_t kRankMax = 64;  // more is refused wherever shapes are parsed

  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const int64_t> dims);

  size_t rank() const { return rank_; }
  int64_t operator[](size_t i) const { return data()[i]; }
  int64_t& operator[](size_t i) { return data()[i]; }
  std::span<const int64_t> dims() const { return {data(), rank_}; }
  const int64_t* begin() const { return data(); }
  const int64_t* end() const { return data() + rank_; }
  void Append(int64_t dim);
  /// All dimensions from `first` on.
  Shape Tail(size_t first) const;
  /// `dim` and then all of this.
  Shape WithLeading(int64_t dim) const;

  bool has_wildcard() const;
  /// The product of the extents (1 for rank 0); kInvalidArgument for a negative extent or when it,
  /// or it times `element_size`, does not fit in 63 bits.
  base::Result<int64_t> ElementCount(size_t element_size = 1) const;
  /// Equal rank and every extent equal or -1 in `pattern`.
  bool Matches(const Shape& pattern) const;
  /// "[2,3]"
  std::string ToString() const;

  friend bool operator==(const Shape& a, const Shape& b);

 private:
  static constexpr size_t kInline = 8;
  const int64_t* data() const { return rank_ <= kInline ? inline_.data() : heap_.data(); }
  int64_t* data() { return rank_ <= kInline ? inline_.data() : heap_.data(); }

  size_t rank_ = 0;
  std::array<int64_t, kInline> inline_{};
  std::vector<int64_t> heap_;
};

}  // namespace stoker::tensor
