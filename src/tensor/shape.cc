#include <stoker/tensor/shape.h>

#include <algorithm>

#include <stoker/base/str_cat.h>

namespace stoker::tensor {

Shape::Shape(std::span<const int64_t> dims) : rank_(dims.size()) {
  if (rank_ > kInline) heap_.resize(rank_);
  std::copy(dims.begin(), dims.end(), data());
}

void Shape::Append(int64_t dim) {
  if (rank_ == kInline) heap_.assign(inline_.begin(), inline_.end());
  if (rank_ >= kInline) {
    heap_.push_back(dim);
    ++rank_;
  } else {
    inline_[rank_++] = dim;
  }
}

Shape Shape::Tail(size_t first) const { return Shape(dims().subspan(std::min(first, rank_))); }

Shape Shape::WithLeading(int64_t dim) const {
  Shape out;
  out.Append(dim);
  for (const int64_t d : dims()) out.Append(d);
  return out;
}

bool Shape::has_wildcard() const {
  return std::any_of(begin(), end(), [](int64_t d) { return d < 0; });
}

base::Result<int64_t> Shape::ElementCount(size_t element_size) const {
  int64_t count = 1;
  for (const int64_t dim : dims()) {
    if (dim < 0)
      return base::InvalidArgument(base::StrCat("shape ", ToString(), " has a negative dimension"));
    if (__builtin_mul_overflow(count, dim, &count)) {
      return base::InvalidArgument(
          base::StrCat("shape ", ToString(), " has more elements than 63 bits can count"));
    }
  }
  int64_t bytes = 0;
  if (__builtin_mul_overflow(count, static_cast<int64_t>(element_size), &bytes)) {
    return base::InvalidArgument(base::StrCat("shape ", ToString(), " with ", element_size,
                                              " bytes an element is larger than 63 bits can count"));
  }
  return count;
}

bool Shape::Matches(const Shape& pattern) const {
  if (rank_ != pattern.rank_) return false;
  for (size_t i = 0; i < rank_; ++i) {
    if (pattern[i] != -1 && pattern[i] != (*this)[i]) return false;
  }
  return true;
}

std::string Shape::ToString() const {
  std::string out = "[";
  for (size_t i = 0; i < rank_; ++i) base::StrAppend(&out, i == 0 ? "" : ",", (*this)[i]);
  return out + "]";
}

bool operator==(const Shape& a, const Shape& b) {
  return a.rank_ == b.rank_ && std::equal(a.begin(), a.end(), b.begin());
}

}  // namespace stoker::tensor
