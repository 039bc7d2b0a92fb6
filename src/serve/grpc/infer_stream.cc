#include "grpc/infer_stream.h"

#include <string>
#include <utility>

#include <stoker/base/clock.h>
#include <stoker/base/executor.h>
#include <stoker/base/str_cat.h>
#include <stoker/host/host.h>

#include "grpc/prepared_infer.h"
#include "kserve/error_text.h"

namespace stoker::serve {
namespace {

base::Status TooManyRequests() {
  return base::Unavailable(base::StrCat("Exceeds maximum queue size: ", kStreamRequestsMax,
                                        " requests of this stream are unanswered"));
}

void CancelAll(const std::vector<std::shared_ptr<host::Cancellation>>& cancellations) {
  for (const auto& cancellation : cancellations) cancellation->Cancel();
}

/// Takes the host's answers to one request to its stream.
class InferStreamSink final : public host::ResponseSink {
 public:
  InferStreamSink(std::shared_ptr<InferStream> stream, uint64_t ticket, PreparedInfer* prepared,
                  base::Executor* executor)
      : stream_(std::move(stream)),
        ticket_(ticket),
        context_(std::move(prepared->answer)),
        wants_empty_final_(prepared->call.empty_final_response),
        executor_(executor) {
    context_.stream = true;
  }

  void OnResponse(host::InferResponse response) override {
    if (!response.final || response.empty) answers_once_ = false;
    if (!response.status.ok()) {
      const base::Status status(response.status.code(),
                                WithRequestId(context_.id, response.status.message()));
      return stream_->AnswerError(ticket_, context_.id, status, response.final);
    }
    if (response.empty && !wants_empty_final_) {
      StreamAnswer nothing;
      nothing.has_message = false;
      nothing.in_order = false;
      return stream_->Answer(ticket_, std::move(nothing));
    }
    if (answers_once_ && !context_.classifications.empty() &&
        ClassificationBytes(context_, response) > kClassifyOnEngineThreadMax) {
      return SendOnExecutor(std::move(response));
    }
    Send(stream_.get(), ticket_, context_, std::move(response));
  }

 private:
  static void Send(InferStream* stream, uint64_t ticket, const GrpcAnswerContext& context,
                   host::InferResponse response) {
    StreamAnswer answer;
    answer.final = response.final;
    answer.in_order = response.final && !response.empty;
    auto parts = WriteInferResponse(context, std::move(response));
    if (!parts.ok()) {
      const base::Status status(parts.status().code(), WithRequestId(context.id, parts.status().message()));
      return stream->AnswerError(ticket, context.id, status, answer.final);
    }
    answer.parts = std::move(parts).value();
    stream->Answer(ticket, std::move(answer));
  }

  void SendOnExecutor(host::InferResponse response) {
    struct Parcel {
      std::shared_ptr<InferStream> stream;
      uint64_t ticket;
      GrpcAnswerContext context;
      host::InferResponse response;
    };
    // Shared only because std::function must be copyable.
    auto parcel = std::make_shared<Parcel>(
        Parcel{std::move(stream_), ticket_, std::move(context_), std::move(response)});
    auto write = [parcel] {
      Send(parcel->stream.get(), parcel->ticket, parcel->context, std::move(parcel->response));
    };
    if (!executor_->Submit(write).ok()) write();  // a full pool slows this answer down; it does not lose it
  }

  std::shared_ptr<InferStream> stream_;  // shared with the call and the stream's other requests
  const uint64_t ticket_;
  GrpcAnswerContext context_;
  const bool wants_empty_final_;
  base::Executor* const executor_;
  bool answers_once_ = true;  // as far as is known
};

class CallOutput final : public StreamOutput {
 public:
  explicit CallOutput(std::shared_ptr<net::GrpcCall> call) : call_(std::move(call)) {}
  bool Write(std::vector<base::Bytes> parts) override { return call_->Write(std::move(parts)); }
  void Finish(base::Status status) override { call_->Finish(std::move(status)); }

 private:
  const std::shared_ptr<net::GrpcCall> call_;  // shared with the network
};

class InferStreamHandler final : public net::GrpcMethodHandler {
 public:
  explicit InferStreamHandler(std::shared_ptr<InferStream> stream) : stream_(std::move(stream)) {}
  void OnMessage(base::Bytes message) override { stream_->Add(std::move(message)); }
  void OnHalfClose() override { stream_->HalfClose(); }
  void OnCancel() override { stream_->Cancel(); }

 private:
  const std::shared_ptr<InferStream> stream_;  // shared with the sinks of its requests
};

}  // namespace

InferStream::InferStream(const DoorContext& context, const DoorOptions& options,
                         InferStreamOptions stream_options, std::unique_ptr<StreamOutput> output)
    : context_(context), options_(options), stream_options_(stream_options), output_(std::move(output)) {}

void InferStream::Add(base::Bytes message) {
  Waiting request{0, context_.clock->NowNs(), std::move(message)};
  const Way way = Admit(&request);
  if (way == Way::kHere) Process(request);
  if (way == Way::kRefused) Refuse(request.message);
  if (way == Way::kExecutor) DrainOnExecutor();
}

InferStream::Way InferStream::Admit(Waiting* request) {
  base::MutexLock lock(&mutex_);
  if (ended_) return Way::kNone;
  if (slots_.size() >= kStreamRequestsMax) return Way::kRefused;
  request->ticket = next_ticket_++;
  slots_.emplace_hint(slots_.end(), request->ticket, Slot());
  if (!draining_ && request->message.size() <= options_.inline_body_bytes_max) return Way::kHere;
  waiting_.push_back(std::move(*request));
  return std::exchange(draining_, true) ? Way::kNone : Way::kExecutor;
}

void InferStream::DrainOnExecutor() {
  const base::Status queued = context_.executor->Submit([self = shared_from_this()] { self->Drain(); });
  if (queued.ok()) return;
  uint64_t ticket = 0;
  {
    base::MutexLock lock(&mutex_);
    draining_ = false;
    if (waiting_.empty()) return;  // the stream has ended meanwhile
    ticket = waiting_.front().ticket;
    waiting_.pop_front();
  }
  AnswerError(ticket, {}, base::Unavailable(queued.message()));
}

void InferStream::Drain() {
  for (;;) {
    Waiting request;
    {
      base::MutexLock lock(&mutex_);
      if (waiting_.empty()) {
        draining_ = false;
        return;
      }
      request = std::move(waiting_.front());
      waiting_.pop_front();
    }
    Process(request);
    // One request a task, so that a stream does not keep a thread to itself while others wait.
    if (context_.executor->Submit([self = shared_from_this()] { self->Drain(); }).ok()) return;
  }
}

void InferStream::Process(const Waiting& request) {
  const auto envelope = ReadEnvelope(request.message);
  if (!envelope.ok()) return AnswerError(request.ticket, {}, envelope.status());
  auto prepared = PrepareInfer(context_, options_, *envelope, request.message);
  if (!prepared.ok()) return AnswerError(request.ticket, envelope->id, prepared.status());
  auto& infer = *prepared->call.request;
  infer.received_ns = request.received_ns;
  infer.deadline_ns = stream_options_.deadline_ns;
  if (!infer.model->runs_inline()) infer.cancellation = std::make_shared<host::Cancellation>();
  if (!Register(request.ticket, infer.cancellation)) return;
  auto sink =
      std::make_unique<InferStreamSink>(shared_from_this(), request.ticket, &*prepared, context_.executor);
  context_.host->Submit(std::move(prepared->call.request), std::move(sink));
}

bool InferStream::Register(uint64_t ticket, std::shared_ptr<host::Cancellation> cancellation) {
  base::MutexLock lock(&mutex_);
  const auto slot = slots_.find(ticket);
  if (slot == slots_.end()) return false;
  slot->second.cancellation = std::move(cancellation);
  return true;
}

void InferStream::Refuse(const base::Bytes& message) {
  const auto envelope = ReadEnvelope(message);
  const std::string_view id = envelope.ok() ? envelope->id : std::string_view();
  Cancellations cancellations;
  {
    base::MutexLock lock(&mutex_);
    StreamAnswer answer = ErrorAnswer(id, TooManyRequests());
    if (!ended_) Send(std::move(answer), &cancellations);
  }
  CancelAll(cancellations);
}

void InferStream::HalfClose() {
  base::MutexLock lock(&mutex_);
  half_closed_ = true;
  FinishIfDone();
}

void InferStream::Cancel() {
  Cancellations cancellations;
  {
    base::MutexLock lock(&mutex_);
    Close(&cancellations);
  }
  CancelAll(cancellations);
}

StreamAnswer InferStream::ErrorAnswer(std::string_view id, const base::Status& status) const {
  StreamAnswer answer;
  // After a message that cannot be read nothing sensible follows.
  if (stream_options_.errors_end_stream || status == MalformedMessage()) {
    answer.end = status;
  } else {
    answer.parts = WriteStreamError(id, status.message());
  }
  return answer;
}

void InferStream::AnswerError(uint64_t ticket, std::string_view id, const base::Status& status, bool final) {
  StreamAnswer answer = ErrorAnswer(id, status);
  answer.final = final;
  answer.in_order = final;
  Answer(ticket, std::move(answer));
}

void InferStream::Answer(uint64_t ticket, StreamAnswer answer) {
  Cancellations cancellations;
  {
    base::MutexLock lock(&mutex_);
    const auto found = slots_.find(ticket);
    if (found == slots_.end()) return;
    Slot& slot = found->second;
    slot.in_order &= answer.in_order;
    slot.done |= answer.final;
    if (slot.in_order) {
      slot.held.push_back(std::move(answer));
    } else {
      Send(std::move(answer), &cancellations);
    }
    SendHeld(&cancellations);
    FinishIfDone();
  }
  CancelAll(cancellations);
}

void InferStream::SendHeld(Cancellations* cancellations) {
  for (auto it = slots_.begin(); it != slots_.end();) {
    Slot& slot = it->second;
    for (auto& answer : slot.held) {
      Send(std::move(answer), cancellations);
      if (ended_) return;
    }
    slot.held.clear();
    if (slot.done) {
      it = slots_.erase(it);
    } else if (slot.in_order) {
      return;
    } else {
      ++it;
    }
  }
}

void InferStream::Send(StreamAnswer answer, Cancellations* cancellations) {
  if (!answer.end.ok()) {
    output_->Finish(std::move(answer.end));
    return Close(cancellations);
  }
  if (!answer.has_message || output_->Write(std::move(answer.parts))) return;
  output_->Finish(base::ResourceExhausted("the client does not read the answers of its stream"));
  Close(cancellations);
}

void InferStream::FinishIfDone() {
  if (ended_ || !half_closed_ || !slots_.empty()) return;
  ended_ = true;
  output_->Finish(base::OkStatus());
}

void InferStream::Close(Cancellations* cancellations) {
  ended_ = true;
  for (auto& [ticket, slot] : slots_) {
    if (slot.cancellation) cancellations->push_back(std::move(slot.cancellation));
  }
  slots_.clear();
  waiting_.clear();
}

std::unique_ptr<net::GrpcMethodHandler> MakeInferStream(const DoorContext& context,
                                                        const DoorOptions& options,
                                                        std::shared_ptr<net::GrpcCall> call) {
  InferStreamOptions stream;
  stream.deadline_ns = call->deadline_ns();
  for (const auto& [name, value] : call->metadata()) {
    if (name == "triton_grpc_error") stream.errors_end_stream = value == "true";
  }
  return std::make_unique<InferStreamHandler>(
      std::make_shared<InferStream>(context, options, stream, std::make_unique<CallOutput>(std::move(call))));
}

}  // namespace stoker::serve
