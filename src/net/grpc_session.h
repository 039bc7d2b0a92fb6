#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <stoker/base/status.h>
#include <stoker/net/grpc_call.h>
#include <stoker/net/grpc_options.h>

#include "grpc_metadata.h"
#include "grpc_stream.h"
#include "h2_session.h"

namespace stoker::net::internal {

/// What happened on one thread's connections. Written by that thread, read by all.
struct alignas(64) GrpcCounters {
  std::atomic<size_t> open_calls{0};
  std::atomic<uint64_t> calls{0};
  std::atomic<uint64_t> offences{0};  // connections cut off for what they did
  std::atomic<uint64_t> bytes_in{0};
  std::atomic<uint64_t> bytes_out{0};

  /// There is but one writer, so no atomic addition is needed.
  template <typename T>
  static void Add(std::atomic<T>& counter, T value) {
    counter.store(counter.load(std::memory_order_relaxed) + value, std::memory_order_relaxed);
  }
};

/// What the sessions of a server share.
struct GrpcShared {
  GrpcShared(GrpcServerOptions o, GrpcDispatcher d)
      : options(std::move(o)),
        dispatcher(std::move(d)),
        budget("incoming messages", options.buffered_bytes_max),
        held(std::make_shared<base::MemoryBudget>("messages of unanswered requests",
                                                  options.buffered_bytes_max)) {}
  const GrpcServerOptions options;
  const GrpcDispatcher dispatcher;
  base::MemoryBudget budget;
  const std::shared_ptr<base::MemoryBudget> held;  // shared with the messages, which may outlive the server
};

/// What a session needs of whoever moves its bytes.
class GrpcSessionHost {
 public:
  virtual ~GrpcSessionHost() = default;
  /// There is something to produce, or next_time_ns has changed.
  virtual void OnOutput() = 0;
  /// Monotonic time.
  virtual int64_t NowNs() const = 0;
};

/// gRPC on one connection, without its socket: received bytes go in, handlers are called, bytes to
/// send come out. Not thread-safe.
class GrpcSession final : private H2Events {
 public:
  static base::Result<std::unique_ptr<GrpcSession>> Make(GrpcShared* shared, GrpcCounters* counters,
                                                         std::shared_ptr<const GrpcPeer> peer,
                                                         GrpcSessionHost* host);
  /// Cancels the calls that are open.
  ~GrpcSession() override;

  /// As H2Session's.
  base::Status Receive(std::span<const std::byte> data);
  base::Status Produce(H2Output* out, size_t bytes_max);
  /// Ends what is overdue: deadlines, messages and answers without progress.
  void OnTime();
  /// When OnTime is wanted at the latest; INT64_MAX: not at all.
  int64_t next_time_ns() const;
  /// Announces the end of the connection; new calls are still taken until FinishDrain, so that none
  /// under way is lost.
  void BeginDrain();
  void FinishDrain();
  bool draining() const { return drain_ != Drain::kNo; }
  /// Asks for a sign of life.
  void SendPing();
  bool ping_unanswered() const { return ping_unanswered_; }
  size_t open_calls() const { return open_calls_; }
  /// The connection is to be closed once what was produced is sent.
  bool finished() const;
  bool handshake_done() const { return h2_->handshake_done(); }
  const char* offence() const { return h2_->offence(); }

  // For GrpcStream.
  void Send(GrpcStream& stream, GrpcOutMessage message);
  void End(GrpcStream& stream, base::Status status, GrpcMetadata trailers);

 private:
  /// The request header being read.
  struct Opening {
    bool post = false;
    bool grpc = false;
    bool accepts_gzip = false;
    int64_t timeout_ns = -1;
    base::Status error;
    bool unknown_coding = false;
    std::string content_type;  // when it is not gRPC's
  };
  enum class Drain : uint8_t { kNo, kAnnounced, kDone };
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
  static constexpr int64_t kStallChecks = 4;  // per timeout
  static constexpr std::string_view kAcceptedCodings = "identity,deflate,gzip";

  GrpcSession(GrpcShared* shared, GrpcCounters* counters, std::shared_ptr<const GrpcPeer> peer,
              GrpcSessionHost* host);

  // H2Events.
  H2Stream* OnOpen(int32_t id) override;
  void OnHeader(H2Stream& stream, std::string_view name, std::string_view value) override;
  void OnHeaders(H2Stream& stream) override;
  void OnData(H2Stream& stream, std::span<const std::byte> data) override;
  void OnEnd(H2Stream& stream) override;
  void OnClose(H2Stream& stream, uint32_t error) override;
  void OnPong(H2Ping kind) override;
  Pull OnPull(H2Stream& stream, size_t size_max) override;
  void OnEmit(H2Stream& stream, size_t size, H2Output* out) override;

  static GrpcStream& AsCall(H2Stream& stream) { return static_cast<GrpcStream&>(stream); }
  void OnPseudoHeader(GrpcStream& stream, std::string_view name, std::string_view value);
  bool OnTransportHeader(GrpcStream& stream, std::string_view name, std::string_view value);
  base::Status CheckOpening(const GrpcStream& stream) const;
  void RefuseHttp(GrpcStream& stream, std::string_view http_status, base::Status status);
  void Deliver(GrpcStream& stream, base::Bytes message);
  void Fail(GrpcStream& stream, base::Status status);
  void Abandon(GrpcStream& stream);
  void CancelHandler(GrpcStream& stream);
  void ReleaseHandler(GrpcStream& stream);
  void DropQueue(GrpcStream& stream);
  void SubmitEnd(GrpcStream& stream, std::string_view http_status);
  void Unlink(GrpcStream& stream);
  void WatchStall(int64_t timeout_ns);
  void WatchDeadline(GrpcStream& stream);
  void EndOverdue(int64_t now_ns);
  void EndStalled(int64_t now_ns);

  GrpcShared* const shared_;
  GrpcCounters* const counters_;
  const std::shared_ptr<const GrpcPeer> peer_;
  GrpcSessionHost* const host_;
  std::unique_ptr<H2Session> h2_;
  GrpcStream* first_ = nullptr;  // open streams
  size_t open_calls_ = 0;
  size_t queue_bytes_ = 0;  // of all streams
  Opening opening_;
  GrpcMetadataCollector metadata_;
  std::shared_ptr<const std::string> last_path_;        // calls tend to repeat it
  std::vector<std::pair<int64_t, int32_t>> deadlines_;  // heap, earliest first; closed streams linger a while
  int64_t next_stall_check_ns_ = kNever;
  Drain drain_ = Drain::kNo;
  bool ping_unanswered_ = false;
};

}  // namespace stoker::net::internal
