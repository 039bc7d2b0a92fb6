#include "grpc_framing.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include <stoker/base/str_cat.h>

namespace stoker::net::internal {
namespace {
constexpr size_t kFirstBytes = 64 << 10;
constexpr size_t kGrowth = 4;
}  // namespace

GrpcPrefix MakeGrpcPrefix(bool compressed, uint32_t size) {
  return {std::byte{compressed}, std::byte(size >> 24), std::byte(size >> 16), std::byte(size >> 8),
          std::byte(size)};
}

// True when the prefix is complete and acceptable.
bool GrpcDeframer::TakePrefix(std::span<const std::byte>* data) {
  const size_t taken = std::min(kGrpcPrefixBytes - prefix_have_, data->size());
  std::memcpy(prefix_.data() + prefix_have_, data->data(), taken);
  *data = data->subspan(taken);
  prefix_have_ += taken;
  if (prefix_have_ < kGrpcPrefixBytes) return false;
  const auto flag = std::to_integer<unsigned>(prefix_[0]);
  size_ = 0;
  for (size_t i = 1; i < kGrpcPrefixBytes; ++i) size_ = size_ << 8 | std::to_integer<size_t>(prefix_[i]);
  compressed_ = flag == 1;
  if (flag > 1) {
    status_ = base::Internal(
        base::StrCat("message with frame flag ", flag, " received; 0 (plain) or 1 (compressed) expected"));
  } else if (size_ > message_bytes_max_) {
    status_ = base::ResourceExhausted(
        base::StrCat("Received message larger than max (", size_, " vs. ", message_bytes_max_, ")"));
  }
  return status_.ok();
}

// Makes room for more of the message; `arriving` bytes of it are at hand.
bool GrpcDeframer::Grow(size_t arriving) {
  const size_t wanted = std::max({kFirstBytes, have_ + arriving, buffer_.size() * kGrowth});
  const size_t size = std::min(size_, wanted);
  const bool whole = have_ == 0 && arriving >= size_;  // is handed over at once
  base::MemoryBudget::Reservation reservation;
  if (!whole) {
    auto reserved = budget_->Reserve(size);
    if (!reserved.ok()) {
      status_ = reserved.status();
      return false;
    }
    reservation = *std::move(reserved);
  }
  base::MutableBytes larger;
  try {
    larger = base::MutableBytes::Allocate(size);
  } catch (const std::bad_alloc&) {
    status_ = base::ResourceExhausted(base::StrCat("out of memory for a message of ", size_, " bytes"));
    return false;
  }
  if (have_ > 0) std::memcpy(larger.data(), buffer_.data(), have_);
  buffer_ = std::move(larger);
  reservation_ = std::move(reservation);
  return true;
}

void GrpcDeframer::Clear() {
  buffer_ = {};
  reservation_.Release();
}

GrpcDeframer::Step GrpcDeframer::Next(std::span<const std::byte>* data) {
  if (prefix_have_ < kGrpcPrefixBytes) {
    if (data->empty()) return Step::kMore;
    if (!TakePrefix(data)) return status_.ok() ? Step::kMore : Step::kFailed;
  }
  while (have_ < size_) {
    if (data->empty()) return Step::kMore;
    if (have_ == buffer_.size() && !Grow(std::min(data->size(), size_ - have_))) return Step::kFailed;
    const size_t taken = std::min(data->size(), buffer_.size() - have_);
    std::memcpy(buffer_.data() + have_, data->data(), taken);
    have_ += taken;
    *data = data->subspan(taken);
  }
  message_ = std::move(buffer_).Freeze(size_);
  Clear();
  prefix_have_ = 0;
  have_ = 0;
  return Step::kMessage;
}

}  // namespace stoker::net::internal
