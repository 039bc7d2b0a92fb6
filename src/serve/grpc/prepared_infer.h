#pragma once

#include <string_view>

#include <stoker/base/bytes.h>
#include <stoker/base/status.h>
#include <stoker/host/host.h>
#include <stoker/serve/door.h>

#include "grpc/infer_reader.h"
#include "grpc/infer_writer.h"

namespace stoker::serve {

/// A request that is ready for the host, and what its answers need.
struct PreparedInfer {
  GrpcInferCall call;
  GrpcAnswerContext answer;
};

/// The version of a model as gRPC clients name it; a negative one is kInvalidArgument, as in Triton.
base::Result<host::ModelRef> FindModel(const host::Host& host, std::string_view name,
                                       std::string_view version);

/// Finds the model and reads the rest of the request.
base::Result<PreparedInfer> PrepareInfer(const DoorContext& context, const DoorOptions& options,
                                         const InferEnvelope& envelope, const base::Bytes& message);

/// Answers with more bytes to classify are written on the executor, so that an engine's thread is not kept.
inline constexpr size_t kClassifyOnEngineThreadMax = 64 << 10;

}  // namespace stoker::serve
