#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <stoker/base/bytes.h>
#include <stoker/base/status.h>
#include <stoker/net/compression.h>
#include <stoker/net/grpc_call.h>

#include "grpc_framing.h"
#include "h2_session.h"

namespace stoker::net::internal {

class GrpcSession;
class GrpcStream;

/// One message on its way out, framed.
struct GrpcOutMessage {
  GrpcPrefix prefix{};
  std::vector<base::Bytes> parts;
  size_t size = 0;  // on the wire, prefix included
};

/// What a thread other than the loop's wants done with a call: a message, or its end.
struct GrpcAnswer {
  std::shared_ptr<GrpcStream> stream;  // shared: keeps the call alive until the loop has seen this
  bool finish = false;
  GrpcOutMessage message;
  base::Status status;
  GrpcMetadata trailers;
};

/// The way from any thread to the thread that owns a connection. Thread-safe.
class GrpcPort {
 public:
  virtual ~GrpcPort() = default;
  virtual bool InOwnThread() const = 0;
  /// Has `answer` applied (GrpcStream::Apply) on the owning thread soon, in order; drops it when the
  /// server is gone.
  virtual void Post(GrpcAnswer answer) = 0;
};

/// What is the same for all calls of a connection.
struct GrpcPeer {
  std::string address;
  std::shared_ptr<GrpcPort> port;  // shared with all calls, which may outlive the server
  size_t write_backlog_bytes_max = 0;
};

/// One call: what GrpcCall offers to all threads, and what the session needs on its own. Shared by
/// the session (until the stream closes) and everybody who holds the GrpcCall.
class GrpcStream final : public H2Stream, public std::enable_shared_from_this<GrpcStream> {
 public:
  GrpcStream(GrpcSession* session, std::shared_ptr<const GrpcPeer> peer, base::MemoryBudget* budget,
             size_t message_bytes_max);

  // Any thread.
  bool Write(std::vector<base::Bytes> parts);
  void Finish(base::Status status, GrpcMetadata trailers);
  bool cancelled() const { return cancelled_.load(std::memory_order_acquire); }
  const std::shared_ptr<const GrpcPeer>& peer() const { return peer_; }
  /// A handle on this call; shares its memory, so it costs no allocation.
  std::shared_ptr<GrpcCall> call();

  // Set before the call is dispatched, constant afterwards.
  std::shared_ptr<const std::string> path;
  std::shared_ptr<const GrpcMetadata> metadata;
  int64_t received_ns = 0;
  int64_t deadline_ns = 0;
  ContentCoding request_coding = ContentCoding::kIdentity;
  ContentCoding response_coding = ContentCoding::kIdentity;

  // The session's thread only, from here on.
  static void Apply(GrpcAnswer answer);
  /// Takes the right to end the call from all threads; false when it is taken already.
  bool ClaimEnd() { return !end_claimed_.exchange(true, std::memory_order_acq_rel); }
  void MarkCancelled() { cancelled_.store(true, std::memory_order_release); }
  void AddBacklog(size_t bytes) { backlog_bytes_.fetch_add(bytes, std::memory_order_relaxed); }
  void TakeBacklog(size_t bytes) { backlog_bytes_.fetch_sub(bytes, std::memory_order_relaxed); }

  GrpcSession* session;              // null once the stream is closed
  std::shared_ptr<GrpcStream> self;  // the session's share, while the stream is open
  GrpcStream* previous = nullptr;    // in the session's list of open streams
  GrpcStream* next = nullptr;
  std::unique_ptr<GrpcMethodHandler> handler;  // null before dispatch and after the end
  int handler_depth = 0;                       // of calls into the handler that run now
  GrpcDeframer deframer;
  bool responded = false;             // headers of the answer are submitted
  bool ended = false;                 // no more messages either way
  std::vector<GrpcOutMessage> queue;  // waiting messages, from queue_first on
  size_t queue_first = 0;
  size_t queue_taken_bytes = 0;  // sent of the first one
  size_t queue_bytes = 0;        // not yet sent of all
  size_t promised_bytes = 0;     // told to nghttp2, not yet moved out
  base::Status final_status;
  GrpcMetadata final_trailers;
  int64_t read_progress_ns = 0;
  int64_t write_progress_ns = 0;

 private:
  /// Frames (and, where agreed, compresses) a message.
  GrpcOutMessage Frame(std::vector<base::Bytes> parts) const;

  const std::shared_ptr<const GrpcPeer> peer_;
  std::atomic<bool> end_claimed_{false};
  std::atomic<bool> cancelled_{false};
  std::atomic<uint32_t> posted_{0};       // answers on their way to the session's thread
  std::atomic<size_t> backlog_bytes_{0};  // written and not yet sent
  GrpcCall call_;                         // what call() hands out
};

/// Remembers that a handler runs, so that it is not destroyed under its own feet.
class GrpcHandlerScope {
 public:
  explicit GrpcHandlerScope(GrpcStream& stream) : stream_(stream) { ++stream_.handler_depth; }
  ~GrpcHandlerScope() {
    if (--stream_.handler_depth == 0 && stream_.ended) stream_.handler.reset();
  }

 private:
  GrpcStream& stream_;
};

}  // namespace stoker::net::internal
