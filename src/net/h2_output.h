#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <stoker/base/bytes.h>

namespace stoker::net::internal {

/// Bytes on their way to a socket: small ones are gathered in one block, large ones stay where they
/// are and are kept alive. Filled, then written until empty; not thread-safe.
class H2Output {
 public:
  void Copy(std::span<const std::byte> data);
  /// Copies `bytes` when that is cheaper than a further piece, else refers to them.
  void Share(base::Bytes bytes);
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  /// Fills `out` with the front of the bytes; the number of entries used. They stay valid until the
  /// next call that is not const.
  size_t Gather(std::span<iovec> out) const;
  /// Removes bytes from the front; at most size().
  void Consume(size_t count);

 private:
  struct Piece {
    base::Bytes shared;  // empty: the bytes lie in flat_
    size_t offset;       // in flat_
    size_t size;
  };
  std::string flat_;
  std::vector<Piece> pieces_;
  size_t first_ = 0;        // piece in front
  size_t first_taken_ = 0;  // of its bytes
  size_t size_ = 0;
};

}  // namespace stoker::net::internal
