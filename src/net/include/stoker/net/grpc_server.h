#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <stoker/base/status.h>
#include <stoker/net/event_loop.h>
#include <stoker/net/grpc_call.h>
#include <stoker/net/grpc_options.h>

namespace stoker::net {

/// A gRPC server over HTTP/2 without TLS (h2c by prior knowledge), framing by nghttp2, on shared
/// event loops. It speaks the gRPC wire protocol (PROTOCOL-HTTP2.md of the gRPC project): deadlines,
/// cancellation, message caps, identity and gzip, trailers-only errors, GOAWAY at drain. Knows nothing of any
/// service.
class GrpcServer {
 public:
  static base::Result<std::unique_ptr<GrpcServer>> Listen(GrpcServerOptions options, EventLoops* loops,
                                                          GrpcDispatcher dispatcher);
  ~GrpcServer();
  uint16_t port() const;
  /// Stops accepting, sends GOAWAY, lets running calls end; each connection closes when its last
  /// call has. Returns at once. Thread-safe.
  void Drain();
  size_t open_connections() const;
  size_t open_calls() const;
  /// Since the start. `offences`: connections cut off for floods and the like.
  struct Counters {
    uint64_t accepted = 0, refused = 0, calls = 0, offences = 0, bytes_in = 0, bytes_out = 0;
  };
  Counters counters() const;

 private:
  struct State;
  explicit GrpcServer(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace stoker::net
