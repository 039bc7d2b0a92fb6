#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <stoker/base/bytes.h>
#include <stoker/base/status.h>

namespace stoker::net {

namespace internal {
class GrpcStream;
}

using GrpcMetadata =
    std::vector<std::pair<std::string, std::string>>;  // lower-case names; -bin values decoded

/// The server's side of one call: what was asked, and the way to answer. Shared between the
/// connection and whoever answers; every call is thread-safe and none blocks. What one thread writes
/// leaves in that order; may outlive the server.
class GrpcCall {
 public:
  explicit GrpcCall(std::shared_ptr<internal::GrpcStream> stream);
  GrpcCall(const GrpcCall&) = delete;
  GrpcCall& operator=(const GrpcCall&) = delete;
  /// "/inference.GRPCInferenceService/ModelInfer"
  std::string_view path() const;
  const GrpcMetadata& metadata() const;
  std::string_view peer() const;
  /// Monotonic deadline from grpc-timeout; 0 when none was given.
  int64_t deadline_ns() const;
  int64_t received_ns() const;

  /// Queues one message (its parts concatenated; framing, and gzip where the client takes it and
  /// the server is set to, are added). False when the call is over or the peer does not read.
  bool Write(std::vector<base::Bytes> parts);
  /// Ends the call with `status`. Exactly once; later calls do nothing.
  void Finish(base::Status status, GrpcMetadata trailers = {});
  /// Cancelled by the client, by its deadline or by a broken connection.
  bool cancelled() const;

 private:
  std::shared_ptr<internal::GrpcStream> stream_;
};

/// What a method does with a call. Called on the I/O thread, must not block. Destroyed after the
/// call is over (on the I/O thread).
class GrpcMethodHandler {
 public:
  virtual ~GrpcMethodHandler() = default;
  /// One message of the client, complete and decompressed.
  virtual void OnMessage(base::Bytes message) = 0;
  /// The client will send no more.
  virtual void OnHalfClose() = 0;
  /// The call was cancelled (by client, deadline or connection). Not called after Finish.
  virtual void OnCancel() = 0;
};

/// Makes the handler of a call, or returns null for a path that is not known (UNIMPLEMENTED).
using GrpcDispatcher = std::function<std::unique_ptr<GrpcMethodHandler>(std::shared_ptr<GrpcCall> call)>;

}  // namespace stoker::net
