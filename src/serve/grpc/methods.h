#pragma once

#include <optional>
#include <string_view>

#include <stoker/serve/door.h>

namespace stoker::serve {

enum class GrpcMethod : uint8_t {
  kModelInfer,
  kModelStreamInfer,
  kServerLive,
  kServerReady,
  kModelReady,
  kServerMetadata,
  kModelMetadata,
  kModelConfig,
  kModelStatistics,
  kRepositoryIndex,
  kRepositoryModelLoad,
  kRepositoryModelUnload,
  kLogSettings,
  kHealthCheck,
  kSharedMemory,  // all six of them: not supported
  kTraceSetting,  // not supported
};

struct GrpcMethodEntry {
  GrpcMethod method;
  ApiCategory category;
};

/// The method of a path such as "/inference.GRPCInferenceService/ModelInfer"; nothing when there is none.
std::optional<GrpcMethodEntry> FindGrpcMethod(std::string_view path);

}  // namespace stoker::serve
