#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <stoker/base/bytes.h>
#include <stoker/base/memory_budget.h>
#include <stoker/base/status.h>

namespace stoker::net::internal {

inline constexpr size_t kGrpcPrefixBytes = 5;
using GrpcPrefix = std::array<std::byte, kGrpcPrefixBytes>;

/// What precedes a message on the wire: a flag byte and its length, most significant byte first.
GrpcPrefix MakeGrpcPrefix(bool compressed, uint32_t size);

/// Cuts the bytes of one direction of a call into messages. Memory grows with what has arrived, not
/// with what a prefix claims, and comes out of the budget until the message is complete.
/// Not thread-safe.
class GrpcDeframer {
 public:
  GrpcDeframer(size_t message_bytes_max, base::MemoryBudget* budget)
      : message_bytes_max_(message_bytes_max), budget_(budget) {}

  enum class Step : uint8_t { kMore, kMessage, kFailed };
  /// Takes bytes from the front of `data` up to the end of one message. kMore: all are taken and a
  /// message is not complete; kFailed: see status(), do not call again.
  Step Next(std::span<const std::byte>* data);
  /// After kMessage, once: the message as sent, and whether its flag says compressed.
  base::Bytes TakeMessage() { return std::move(message_); }
  bool compressed() const { return compressed_; }
  const base::Status& status() const { return status_; }
  /// Drops what is begun; the budget is not used any more.
  void Clear();
  /// A message has begun and is not complete.
  bool in_message() const { return prefix_have_ > 0; }

 private:
  bool TakePrefix(std::span<const std::byte>* data);
  bool Grow(size_t arriving);

  const size_t message_bytes_max_;
  base::MemoryBudget* const budget_;
  std::array<std::byte, kGrpcPrefixBytes> prefix_{};
  size_t prefix_have_ = 0;
  bool compressed_ = false;
  size_t size_ = 0;  // of the message, from its prefix
  base::MutableBytes buffer_;
  size_t have_ = 0;  // of the message, in buffer_
  base::MemoryBudget::Reservation reservation_;
  base::Bytes message_;
  base::Status status_;
};

}  // namespace stoker::net::internal
