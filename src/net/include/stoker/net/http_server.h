#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <stoker/base/status.h>
#include <stoker/net/event_loop.h>
#include <stoker/net/http_message.h>

namespace stoker::net {

namespace internal {
class HttpExchange;
}

/// The right and duty to answer one request exactly once. Move-only; every call is thread-safe and
/// none blocks. Dropping it unanswered sends a 500. Calls after the peer has gone do nothing.
/// Send from the I/O thread inside the handler is the fast path: no hop, no allocation of a task.
class HttpResponder {
 public:
  HttpResponder() = default;
  explicit HttpResponder(std::shared_ptr<internal::HttpExchange> exchange);
  HttpResponder(HttpResponder&&) noexcept;
  HttpResponder& operator=(HttpResponder&&) noexcept;
  ~HttpResponder();

  void Send(HttpResponse response);

  /// A streamed answer (chunked; for HTTP/1.0 closed at the end): head, parts, end. Dropping the
  /// responder before Finish breaks the connection, so that the client sees that the end is missing.
  void StartStream(HttpResponse head);
  /// False when the peer has gone or does not read (more than the bound is waiting, and the
  /// connection is broken off): stop then.
  bool Write(base::Bytes part);
  void Finish();

  /// The client closed its connection, or its sending half of it, before the answer: nobody waits
  /// for it any more. (A client that half-closes and reads on still gets an answer that is sent.)
  bool Disconnected() const;
  /// Calls `callback` once on the I/O thread if the client disconnects before the answer is given
  /// (at once, on the calling thread, when it has). Set it at most once. It must not block, and it
  /// may still be running when Send returns on another thread: let it own what it captures.
  void OnDisconnect(std::function<void()> callback);

 private:
  std::shared_ptr<internal::HttpExchange> exchange_;  // shared: connection and answering thread both hold it
};

struct HttpServerOptions {
  std::string name = "http";  // for messages and metrics
  std::string address = "127.0.0.1";
  uint16_t port = 8000;                     // 0: any free one
  std::string port_option = "--http-port";  // named in the error when the port is taken
  bool reuse_port = false;
  size_t header_bytes_max = 64 << 10;
  size_t header_count_max = 256;
  size_t body_bytes_max = 64 << 20;
  size_t chunk_count_max = 65536;  // non-empty chunks of one body
  size_t connections_max = 16384;
  size_t pipelined_max = 64;                   // requests of one connection waiting for answers
  size_t write_backlog_bytes_max = 64 << 20;   // of a streamed answer that the peer does not read
  int64_t header_timeout_ns = 30'000'000'000;  // first byte to end of header
  int64_t body_timeout_ns = 60'000'000'000;    // without any progress
  int64_t idle_timeout_ns = 300'000'000'000;   // keep-alive without a request
  int64_t write_timeout_ns = 60'000'000'000;   // without any progress
  size_t buffered_bytes_max = 1ull << 30;      // receive memory of all connections together
};

/// An HTTP/1.0 and 1.1 server on shared event loops. The handler runs on the I/O threads, on several
/// at a time, and must not block. Answers of one connection leave in request order whatever order they are
/// given in. Refused before anything is allocated: headers and bodies beyond the limits (431, 413), both
/// length headers, several differing lengths, unknown transfer codings, bare CR or LF in headers,
/// obsolete folding, malformed chunks (400 and close), HTTP/2 prefaces (505).
class HttpServer {
 public:
  using Handler = std::function<void(HttpRequest request, HttpResponder responder)>;

  /// Binds and listens; kUnavailable names the option when the port is taken.
  static base::Result<std::unique_ptr<HttpServer>> Listen(HttpServerOptions options, EventLoops* loops,
                                                          Handler handler);
  /// Closes everything at once; the handler does not run any more when it returns. Responders may
  /// outlive it. Not from an I/O thread.
  ~HttpServer();
  uint16_t port() const;
  /// Stops accepting and closes idle connections; each other one closes after its current answers
  /// ("Connection: close"). Returns at once; `open_connections` tells the progress. Thread-safe.
  void Drain();
  size_t open_connections() const;
  struct Counters {
    uint64_t accepted, refused, requests, bad_requests, timeouts, bytes_in, bytes_out;
  };
  Counters counters() const;

 private:
  struct State;
  explicit HttpServer(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace stoker::net
