#include "h2_output.h"

#include <algorithm>
#include <utility>

#include <stoker/base/check.h>

namespace stoker::net::internal {
namespace {
constexpr size_t kShareBytesMin = 1024;      // below, an iovec costs more than the copy
constexpr size_t kFlatBytesKept = 64 << 10;  // memory kept between rounds
}  // namespace

void H2Output::Copy(std::span<const std::byte> data) {
  if (data.empty()) return;
  if (pieces_.empty() || !pieces_.back().shared.empty()) pieces_.push_back({{}, flat_.size(), 0});
  flat_.append(reinterpret_cast<const char*>(data.data()), data.size());
  pieces_.back().size += data.size();
  size_ += data.size();
}

void H2Output::Share(base::Bytes bytes) {
  if (bytes.size() < kShareBytesMin) {
    Copy(bytes.span());
    return;
  }
  const size_t size = bytes.size();
  pieces_.push_back({std::move(bytes), 0, size});
  size_ += size;
}

size_t H2Output::Gather(std::span<iovec> out) const {
  size_t used = 0;
  size_t skip = first_taken_;
  for (size_t i = first_; i < pieces_.size() && used < out.size(); ++i) {
    const Piece& piece = pieces_[i];
    const char* start = piece.shared.empty() ? flat_.data() + piece.offset : piece.shared.text().data();
    out[used++] = {const_cast<char*>(start) + skip, piece.size - skip};
    skip = 0;
  }
  return used;
}

void H2Output::Consume(size_t count) {
  CHECK(count <= size_);
  size_ -= count;
  while (count > 0) {
    Piece& piece = pieces_[first_];
    const size_t taken = std::min(count, piece.size - first_taken_);
    count -= taken;
    first_taken_ += taken;
    if (first_taken_ < piece.size) break;
    piece.shared = {};
    ++first_;
    first_taken_ = 0;
  }
  if (size_ > 0) return;
  pieces_.clear();
  first_ = 0;
  if (flat_.capacity() > kFlatBytesKept) flat_ = {};
  flat_.clear();
}

}  // namespace stoker::net::internal
