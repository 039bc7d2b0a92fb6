#include "grpc/methods.h"

namespace stoker::serve {
namespace {

constexpr std::string_view kService = "/inference.GRPCInferenceService/";
constexpr std::string_view kHealthCheckPath = "/grpc.health.v1.Health/Check";

struct Row {
  std::string_view name;
  GrpcMethodEntry entry;
};

constexpr Row kRows[] = {
    {"ModelInfer", {GrpcMethod::kModelInfer, ApiCategory::kInference}},
    {"ModelStreamInfer", {GrpcMethod::kModelStreamInfer, ApiCategory::kInference}},
    {"ServerLive", {GrpcMethod::kServerLive, ApiCategory::kHealth}},
    {"ServerReady", {GrpcMethod::kServerReady, ApiCategory::kHealth}},
    {"ModelReady", {GrpcMethod::kModelReady, ApiCategory::kHealth}},
    {"ServerMetadata", {GrpcMethod::kServerMetadata, ApiCategory::kMetadata}},
    {"ModelMetadata", {GrpcMethod::kModelMetadata, ApiCategory::kMetadata}},
    {"ModelConfig", {GrpcMethod::kModelConfig, ApiCategory::kModelConfig}},
    {"ModelStatistics", {GrpcMethod::kModelStatistics, ApiCategory::kStatistics}},
    {"RepositoryIndex", {GrpcMethod::kRepositoryIndex, ApiCategory::kModelRepository}},
    {"RepositoryModelLoad", {GrpcMethod::kRepositoryModelLoad, ApiCategory::kModelRepository}},
    {"RepositoryModelUnload", {GrpcMethod::kRepositoryModelUnload, ApiCategory::kModelRepository}},
    {"LogSettings", {GrpcMethod::kLogSettings, ApiCategory::kLogging}},
    {"TraceSetting", {GrpcMethod::kTraceSetting, ApiCategory::kTrace}},
    {"SystemSharedMemoryStatus", {GrpcMethod::kSharedMemory, ApiCategory::kSharedMemory}},
    {"SystemSharedMemoryRegister", {GrpcMethod::kSharedMemory, ApiCategory::kSharedMemory}},
    {"SystemSharedMemoryUnregister", {GrpcMethod::kSharedMemory, ApiCategory::kSharedMemory}},
    {"CudaSharedMemoryStatus", {GrpcMethod::kSharedMemory, ApiCategory::kSharedMemory}},
    {"CudaSharedMemoryRegister", {GrpcMethod::kSharedMemory, ApiCategory::kSharedMemory}},
    {"CudaSharedMemoryUnregister", {GrpcMethod::kSharedMemory, ApiCategory::kSharedMemory}},
};

}  // namespace

std::optional<GrpcMethodEntry> FindGrpcMethod(std::string_view path) {
  if (path.starts_with(kService)) {
    const std::string_view name = path.substr(kService.size());
    for (const Row& row : kRows) {
      if (row.name == name) return row.entry;
    }
  }
  if (path == kHealthCheckPath) return GrpcMethodEntry{GrpcMethod::kHealthCheck, ApiCategory::kHealth};
  return std::nullopt;
}

}  // namespace stoker::serve
