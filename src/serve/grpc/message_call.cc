#include "grpc/message_call.h"

#include <utility>

#include <stoker/base/executor.h>

#include "grpc/control.h"
#include "grpc/information.h"

namespace stoker::serve {
namespace {

using CallRef = std::shared_ptr<net::GrpcCall>;

void Reply(const CallRef& call, base::Result<std::string> answer) {
  if (!answer.ok()) return call->Finish(answer.status());
  std::vector<base::Bytes> parts;
  parts.push_back(base::Bytes::Own(std::move(answer).value()));
  if (call->Write(std::move(parts))) return call->Finish(base::OkStatus());
  call->Finish(base::ResourceExhausted("the answer does not fit in the bytes that may wait for the client"));
}

void Run(const DoorContext& context, const DoorOptions& options, GrpcMethod method, const CallRef& call,
         const base::Bytes& message) {
  const auto reply = [call](base::Result<std::string> answer) { Reply(call, std::move(answer)); };
  switch (method) {
    case GrpcMethod::kRepositoryModelLoad:
      return LoadModelByGrpc(context, options, message.text(), reply);
    case GrpcMethod::kRepositoryModelUnload:
      return UnloadModelByGrpc(context, message.text(), reply);
    case GrpcMethod::kLogSettings:
      return reply(AnswerLogSettings(context, message.text()));
    default:
      return reply(AnswerInformation(context, options, method, message.text()));
  }
}

class MessageCallHandler final : public net::GrpcMethodHandler {
 public:
  MessageCallHandler(const DoorContext& context, const DoorOptions& options, GrpcMethod method, CallRef call)
      : context_(context), options_(options), method_(method), call_(std::move(call)) {}

  void OnMessage(base::Bytes message) override {
    if (has_message_)
      return call_->Finish(base::Internal("a unary call takes one message, got a second one"));
    has_message_ = true;
    message_ = std::move(message);
  }

  void OnHalfClose() override {
    if (!has_message_) return call_->Finish(base::Internal("a unary call needs one message, got none"));
    const base::Bytes message = std::exchange(message_, {});
    // The index makes the host look at its folders, which may lie on a slow disk.
    if (message.size() <= options_.inline_body_bytes_max && method_ != GrpcMethod::kRepositoryIndex) {
      return Run(context_, options_, method_, call_, message);
    }
    const base::Status queued =
        context_.executor->Submit([&context = context_, &options = options_, method = method_, call = call_,
                                   message] { Run(context, options, method, call, message); });
    if (!queued.ok()) call_->Finish(base::Unavailable(queued.message()));
  }

  void OnCancel() override {}  // what is asked for here is done to its end

 private:
  const DoorContext& context_;
  const DoorOptions& options_;
  const GrpcMethod method_;
  const CallRef call_;  // shared with the reply of a load
  base::Bytes message_;
  bool has_message_ = false;
};

}  // namespace

std::unique_ptr<net::GrpcMethodHandler> MakeMessageCall(const DoorContext& context,
                                                        const DoorOptions& options, GrpcMethod method,
                                                        std::shared_ptr<net::GrpcCall> call) {
  return std::make_unique<MessageCallHandler>(context, options, method, std::move(call));
}

}  // namespace stoker::serve
