#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace stoker::base {

/// A read-only run of bytes that keeps what it points into alive. Ownership is shared because one
/// receive buffer or batch output feeds many tensors and answers; copying a Bytes copies no data.
/// The bytes must not change while any Bytes refers to them. Thread-safe to copy and read.
class Bytes {
 public:
  Bytes() = default;
  /// A view of memory owned by `owner` (may be null for memory that outlives all users).
  Bytes(std::span<const std::byte> view, std::shared_ptr<const void> owner)
      : view_(view), owner_(std::move(owner)) {}
  /// Takes over a string.
  static Bytes Own(std::string text);
  /// Bytes with static storage duration.
  static Bytes Static(std::string_view text);

  const std::byte* data() const { return view_.data(); }
  size_t size() const { return view_.size(); }
  bool empty() const { return view_.empty(); }
  std::span<const std::byte> span() const { return view_; }
  std::string_view text() const { return {reinterpret_cast<const char*>(view_.data()), view_.size()}; }
  /// A part of it, sharing ownership. offset + size must lie inside.
  Bytes Slice(size_t offset, size_t size) const;
  const std::shared_ptr<const void>& owner() const { return owner_; }

 private:
  std::span<const std::byte> view_;
  std::shared_ptr<const void> owner_;
};

/// Freshly allocated, 64-byte aligned, uninitialised memory that becomes a Bytes once filled.
/// Not thread-safe.
class MutableBytes {
 public:
  MutableBytes() = default;
  static MutableBytes Allocate(size_t size);
  std::byte* data() { return data_.get(); }
  size_t size() const { return size_; }
  std::span<std::byte> span() { return {data_.get(), size_}; }
  /// The same memory, now read-only and shareable, cut to `size` (at most size()).
  Bytes Freeze(size_t size) &&;
  Bytes Freeze() && {
    const size_t whole = size_;
    return std::move(*this).Freeze(whole);
  }

 private:
  std::shared_ptr<std::byte> data_;
  size_t size_ = 0;
};

}  // namespace stoker::base
