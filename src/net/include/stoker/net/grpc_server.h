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
#include <stoker/net/event_loop.h>

namespace stoker::net {

namespace internal {
class GrpcStream;
}

using GrpcMetadata =
    std::vector<std::pair<std::string, std::string>>;  // lower-case names; -bin values decoded

/// The server's side of one call: what was asked, and the way to answer. Shared between the
/// connection and whoever answers; every call is thread-safe and none blocks.
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

struct GrpcServerOptions {
  std::string name = "grpc";
  std::string address = "127.0.0.1";
  uint16_t port = 8001;  // 0: any free one
  std::string port_option = "--grpc-port";
  bool reuse_port = false;
  size_t message_bytes_max = 2147483647;   // of one message, before and after decompression
  size_t buffered_bytes_max = 2ull << 30;  // receive memory of all connections together
  size_t header_bytes_max = 64 << 10;      // of one header list
  size_t connections_max = 16384;
  uint32_t streams_max = 1024;  // concurrent, per connection
  uint32_t stream_window_bytes = 1 << 20;
  uint32_t connection_window_bytes = 16 << 20;
  size_t write_backlog_bytes_max = 64 << 20;      // per call
  uint32_t resets_per_second_max = 200;           // RST_STREAM flood (rapid reset) limit per connection
  uint32_t control_frames_per_second_max = 1000;  // PING, SETTINGS, PRIORITY flood limit per connection
  bool gzip_responses = false;
  int64_t keepalive_time_ns = 7'200'000'000'000;  // PING after that much silence
  int64_t keepalive_timeout_ns = 20'000'000'000;  // close when it is not answered
  int64_t handshake_timeout_ns = 20'000'000'000;  // preface and SETTINGS
  int64_t idle_timeout_ns = 0;                    // connection without calls; 0: never
  int64_t read_timeout_ns = 60'000'000'000;       // within a message, without any progress
  int64_t write_timeout_ns = 60'000'000'000;      // answers wait, without any progress
};

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
