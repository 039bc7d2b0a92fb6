#include <stoker/serve/grpc_door.h>

#include <utility>

#include <stoker/base/str_cat.h>
#include <stoker/observe/log.h>

#include "grpc/infer_call.h"
#include "grpc/infer_stream.h"
#include "grpc/message_call.h"
#include "grpc/methods.h"
#include "kserve/authorisation.h"

namespace stoker::serve {
namespace {

/// Of a call that is over already.
class EndedCall final : public net::GrpcMethodHandler {
 public:
  void OnMessage(base::Bytes /*message*/) override {}
  void OnHalfClose() override {}
  void OnCancel() override {}
};

std::unique_ptr<net::GrpcMethodHandler> Refuse(net::GrpcCall* call, base::Status status) {
  call->Finish(std::move(status));
  return std::make_unique<EndedCall>();
}

base::Status NotSupported(std::string_view what) {
  return base::Unimplemented(base::StrCat(what, " is not supported by this server"));
}

}  // namespace

struct GrpcDoor::State {
  DoorContext context;
  DoorOptions options;
};

GrpcDoor::GrpcDoor(DoorContext context, DoorOptions options)
    : state_(std::make_unique<State>(State{context, std::move(options)})) {}
GrpcDoor::~GrpcDoor() = default;

std::unique_ptr<net::GrpcMethodHandler> GrpcDoor::Dispatch(std::shared_ptr<net::GrpcCall> call) {
  const DoorContext& context = state_->context;
  const DoorOptions& options = state_->options;
  const auto found = FindGrpcMethod(call->path());
  if (options.access_log) context.log->Info("request", {{"path", call->path()}, {"peer", call->peer()}});
  if (!found) return nullptr;
  base::Status allowed = Authorise(found->category);
  if (!allowed.ok()) return Refuse(call.get(), std::move(allowed));
  switch (found->method) {
    case GrpcMethod::kModelInfer:
      return MakeInferCall(context, options, std::move(call));
    case GrpcMethod::kModelStreamInfer:
      return MakeInferStream(context, options, std::move(call));
    case GrpcMethod::kSharedMemory:
      return Refuse(call.get(), NotSupported("the shared memory extension"));
    case GrpcMethod::kTraceSetting:
      return Refuse(call.get(), NotSupported("the trace extension"));
    default:
      return MakeMessageCall(context, options, found->method, std::move(call));
  }
}

}  // namespace stoker::serve
