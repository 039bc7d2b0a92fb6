#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include <stoker/base/bytes.h>
#include <stoker/base/mutex.h>
#include <stoker/base/status.h>
#include <stoker/host/request.h>
#include <stoker/net/grpc_server.h>
#include <stoker/serve/door.h>

namespace stoker::serve {

/// The handler of one ModelStreamInfer call. `context` and `options` outlive it and its requests.
std::unique_ptr<net::GrpcMethodHandler> MakeInferStream(const DoorContext& context,
                                                        const DoorOptions& options,
                                                        std::shared_ptr<net::GrpcCall> call);

/// Requests of one stream that may be unanswered at a time; further ones are refused.
inline constexpr size_t kStreamRequestsMax = 1024;

/// Where the answers of a stream go: a gRPC call. Thread-safe, does not block.
class StreamOutput {
 public:
  virtual ~StreamOutput() = default;
  /// Queues one message; false when the call is over or the peer does not read.
  virtual bool Write(std::vector<base::Bytes> parts) = 0;
  /// Ends the call.
  virtual void Finish(base::Status status) = 0;
};

struct InferStreamOptions {
  bool errors_end_stream = false;  // triton_grpc_error
  int64_t deadline_ns = 0;         // of the call, monotonic; 0: none
};

/// One message on its way to the client, or none, and what it means for its request.
struct StreamAnswer {
  std::vector<base::Bytes> parts;
  bool has_message = true;
  bool final = true;     // the request is answered
  bool in_order = true;  // waits for the answers to earlier requests; not so with decoupled models
  base::Status end;      // not OK: the stream ends with this instead of a message
};

/// The requests of one ModelStreamInfer call. Answers of models that answer once leave in the order of
/// their requests. Shared by the call's handler and the sinks of its requests. Thread-safe; the calls
/// that bring input come from one thread at a time.
class InferStream final : public std::enable_shared_from_this<InferStream> {
 public:
  InferStream(const DoorContext& context, const DoorOptions& options, InferStreamOptions stream_options,
              std::unique_ptr<StreamOutput> output);

  /// A request of the client. Large ones are read on the executor, and those after them too, so that
  /// requests reach the host in the order in which they came.
  void Add(base::Bytes message);
  void HalfClose();
  /// The call is over: requests that still run are cancelled.
  void Cancel();

  void Answer(uint64_t ticket, StreamAnswer answer);
  /// Answers with a message that carries the error, or ends the stream if that was asked for.
  void AnswerError(uint64_t ticket, std::string_view id, const base::Status& status, bool final = true);

 private:
  struct Waiting {
    uint64_t ticket = 0;
    int64_t received_ns = 0;
    base::Bytes message;
  };
  /// An unanswered request.
  struct Slot {
    std::shared_ptr<host::Cancellation>
        cancellation;                // shared with the host; null when it cannot be cancelled
    std::vector<StreamAnswer> held;  // behind earlier requests
    bool done = false;
    bool in_order = true;
  };
  using Cancellations = std::vector<std::shared_ptr<host::Cancellation>>;
  enum class Way : uint8_t { kNone, kHere, kExecutor, kRefused };

  /// Gives the request its place; says what is to be done with it by the caller.
  Way Admit(Waiting* request);
  void DrainOnExecutor();
  void Drain();
  void Process(const Waiting& request);
  /// False when the stream is over already.
  bool Register(uint64_t ticket, std::shared_ptr<host::Cancellation> cancellation);
  void Refuse(const base::Bytes& message);
  StreamAnswer ErrorAnswer(std::string_view id, const base::Status& status) const;
  void Send(StreamAnswer answer, Cancellations* cancellations) REQUIRES(mutex_);
  void SendHeld(Cancellations* cancellations) REQUIRES(mutex_);
  void FinishIfDone() REQUIRES(mutex_);
  /// Forgets all requests; what has to be cancelled is added to `cancellations`, for after the lock.
  void Close(Cancellations* cancellations) REQUIRES(mutex_);

  const DoorContext& context_;
  const DoorOptions& options_;
  const InferStreamOptions stream_options_;
  const std::unique_ptr<StreamOutput> output_;

  base::Mutex mutex_;
  uint64_t next_ticket_ GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, Slot> slots_ GUARDED_BY(mutex_);  // at most kStreamRequestsMax
  std::deque<Waiting> waiting_ GUARDED_BY(mutex_);     // each has a slot
  bool draining_ GUARDED_BY(mutex_) = false;           // waiting_ is read on the executor
  bool half_closed_ GUARDED_BY(mutex_) = false;
  bool ended_ GUARDED_BY(mutex_) = false;
};

}  // namespace stoker::serve
