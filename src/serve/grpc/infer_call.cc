#include "grpc/infer_call.h"

#include <utility>

#include <stoker/base/executor.h>
#include <stoker/host/host.h>

#include "grpc/prepared_infer.h"
#include "kserve/error_text.h"

namespace stoker::serve {
namespace {

using CallRef = std::shared_ptr<net::GrpcCall>;

base::Status WithId(std::string_view id, const base::Status& status) {
  return {status.code(), WithRequestId(id, status.message())};
}

void SendAnswer(const GrpcAnswerContext& context, host::InferResponse response, net::GrpcCall* call) {
  auto parts = WriteInferResponse(context, std::move(response));
  if (!parts.ok()) return call->Finish(WithId(context.id, parts.status()));
  if (call->Write(std::move(parts).value())) return call->Finish(base::OkStatus());
  call->Finish(base::ResourceExhausted("the answer does not fit in the bytes that may wait for the client"));
}

/// Waits for the host's answer and writes it to the call.
class InferCallSink final : public host::ResponseSink {
 public:
  InferCallSink(GrpcAnswerContext context, base::Executor* executor, CallRef call)
      : context_(std::move(context)), executor_(executor), call_(std::move(call)) {}

  void OnResponse(host::InferResponse response) override {
    if (answered_) return;
    answered_ = true;
    if (!response.status.ok()) {
      call_->Finish(WithId(context_.id, response.status));
    } else if (!response.final || response.empty) {
      call_->Finish(
          base::Unimplemented("ModelInfer RPC doesn't support models with decoupled transaction policy; use "
                              "ModelStreamInfer"));
    } else if (!context_.classifications.empty() &&
               ClassificationBytes(context_, response) > kClassifyOnEngineThreadMax) {
      SendOnExecutor(std::move(response));
    } else {
      SendAnswer(context_, std::move(response), call_.get());
    }
  }

 private:
  void SendOnExecutor(host::InferResponse response) {
    struct Parcel {
      GrpcAnswerContext context;
      host::InferResponse response;
      CallRef call;
    };
    // Shared only because std::function must be copyable.
    auto parcel =
        std::make_shared<Parcel>(Parcel{std::move(context_), std::move(response), std::move(call_)});
    auto write = [parcel] { SendAnswer(parcel->context, std::move(parcel->response), parcel->call.get()); };
    if (!executor_->Submit(write).ok()) write();  // a full pool slows this answer down; it does not lose it
  }

  GrpcAnswerContext context_;
  base::Executor* executor_;
  CallRef call_;
  bool answered_ = false;
};

base::Result<PreparedInfer> Read(const DoorContext& context, const DoorOptions& options,
                                 const base::Bytes& message) {
  STOKER_ASSIGN_OR_RETURN(const InferEnvelope envelope, ReadEnvelope(message));
  return PrepareInfer(context, options, envelope, message);
}

/// Reads the request and hands it to the host. `cancellation` is made here unless it is there already or
/// nothing will be left to cancel.
void Run(const DoorContext& context, const DoorOptions& options, CallRef call, const base::Bytes& message,
         std::shared_ptr<host::Cancellation>* cancellation) {
  auto prepared = Read(context, options, message);
  if (!prepared.ok()) return call->Finish(prepared.status());
  auto& request = *prepared->call.request;
  request.received_ns = call->received_ns();
  request.deadline_ns = call->deadline_ns();
  if (!*cancellation && !request.model->runs_inline()) *cancellation = std::make_shared<host::Cancellation>();
  request.cancellation = *cancellation;
  auto sink = std::make_unique<InferCallSink>(std::move(prepared->answer), context.executor, std::move(call));
  context.host->Submit(std::move(prepared->call.request), std::move(sink));
}

class InferCallHandler final : public net::GrpcMethodHandler {
 public:
  InferCallHandler(const DoorContext& context, const DoorOptions& options, CallRef call)
      : context_(context), options_(options), call_(std::move(call)) {}

  void OnMessage(base::Bytes message) override {
    if (has_message_)
      return call_->Finish(base::Internal("a unary call takes one message, got a second one"));
    has_message_ = true;
    message_ = std::move(message);
  }

  void OnHalfClose() override {
    if (!has_message_) return call_->Finish(base::Internal("a unary call needs one message, got none"));
    if (message_.size() > options_.inline_body_bytes_max) return RunOnExecutor();
    Run(context_, options_, call_, std::exchange(message_, {}), &cancellation_);
  }

  void OnCancel() override {
    if (const auto cancellation = cancellation_) cancellation->Cancel();
  }

 private:
  void RunOnExecutor() {
    struct Parcel {
      base::Bytes message;
      CallRef call;
      std::shared_ptr<host::Cancellation> cancellation;
    };
    cancellation_ = std::make_shared<host::Cancellation>();
    // Shared only because std::function must be copyable.
    auto parcel = std::make_shared<Parcel>(Parcel{std::exchange(message_, {}), call_, cancellation_});
    const base::Status queued = context_.executor->Submit([&context = context_, &options = options_, parcel] {
      if (parcel->call->cancelled()) return;
      Run(context, options, std::move(parcel->call), parcel->message, &parcel->cancellation);
      parcel->message = {};
    });
    if (!queued.ok()) call_->Finish(base::Unavailable(queued.message()));
  }

  const DoorContext& context_;
  const DoorOptions& options_;
  const CallRef call_;  // shared with the request's sink
  base::Bytes message_;
  bool has_message_ = false;
  std::shared_ptr<host::Cancellation> cancellation_;  // shared with the host
};

}  // namespace

std::unique_ptr<net::GrpcMethodHandler> MakeInferCall(const DoorContext& context, const DoorOptions& options,
                                                      std::shared_ptr<net::GrpcCall> call) {
  return std::make_unique<InferCallHandler>(context, options, std::move(call));
}

}  // namespace stoker::serve
