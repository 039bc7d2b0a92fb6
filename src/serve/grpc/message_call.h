#pragma once

#include <memory>

#include <stoker/net/grpc_server.h>
#include <stoker/serve/door.h>

#include "grpc/methods.h"

namespace stoker::serve {

/// The handler of a unary call other than ModelInfer. `context` and `options` outlive it.
std::unique_ptr<net::GrpcMethodHandler> MakeMessageCall(const DoorContext& context,
                                                        const DoorOptions& options, GrpcMethod method,
                                                        std::shared_ptr<net::GrpcCall> call);

}  // namespace stoker::serve
