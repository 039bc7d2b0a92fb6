#pragma once

#include <memory>

#include <stoker/net/grpc_server.h>
#include <stoker/serve/door.h>

namespace stoker::serve {

/// The handler of one unary ModelInfer call. `context` and `options` outlive it.
std::unique_ptr<net::GrpcMethodHandler> MakeInferCall(const DoorContext& context, const DoorOptions& options,
                                                      std::shared_ptr<net::GrpcCall> call);

}  // namespace stoker::serve
