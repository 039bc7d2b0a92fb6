#pragma once

#include <memory>

#include <stoker/net/grpc_server.h>
#include <stoker/serve/door.h>

namespace stoker::serve {

/// inference.GRPCInferenceService and grpc.health.v1.Health. Thread-safe. Outlives the server whose
/// dispatcher it is.
class GrpcDoor {
 public:
  GrpcDoor(DoorContext context, DoorOptions options);
  ~GrpcDoor();
  /// The dispatcher for net::GrpcServer. Never blocks.
  std::unique_ptr<net::GrpcMethodHandler> Dispatch(std::shared_ptr<net::GrpcCall> call);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace stoker::serve
