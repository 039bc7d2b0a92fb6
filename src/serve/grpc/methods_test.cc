// Aim: every path of the service is known, with its category, and nothing else is. Method: the table of
// the protocol.
#include "grpc/methods.h"

#include <string>

#include <gtest/gtest.h>

namespace stoker::serve {
namespace {

TEST(MethodsTest, KnowsTheServices) {
  const std::string service = "/inference.GRPCInferenceService/";
  int found = 0;
  for (const char* name : {"ServerLive",
                           "ServerReady",
                           "ModelReady",
                           "ServerMetadata",
                           "ModelMetadata",
                           "ModelInfer",
                           "ModelStreamInfer",
                           "ModelConfig",
                           "ModelStatistics",
                           "RepositoryIndex",
                           "RepositoryModelLoad",
                           "RepositoryModelUnload",
                           "SystemSharedMemoryStatus",
                           "SystemSharedMemoryRegister",
                           "SystemSharedMemoryUnregister",
                           "CudaSharedMemoryStatus",
                           "CudaSharedMemoryRegister",
                           "CudaSharedMemoryUnregister",
                           "TraceSetting",
                           "LogSettings"}) {
    EXPECT_TRUE(FindGrpcMethod(service + name)) << name;
    ++found;
  }
  EXPECT_EQ(found, 20);
  EXPECT_EQ(FindGrpcMethod(service + "ModelInfer")->category, ApiCategory::kInference);
  EXPECT_EQ(FindGrpcMethod(service + "RepositoryModelLoad")->category, ApiCategory::kModelRepository);
  EXPECT_EQ(FindGrpcMethod("/grpc.health.v1.Health/Check")->method, GrpcMethod::kHealthCheck);
}

TEST(MethodsTest, KnowsNothingElse) {
  for (const char* path :
       {"", "/", "/inference.GRPCInferenceService/", "/inference.GRPCInferenceService/modelinfer",
        "/inference.GRPCInferenceService/ModelInfer/", "/ModelInfer", "/grpc.health.v1.Health/Watch"}) {
    EXPECT_FALSE(FindGrpcMethod(path)) << path;
  }
}

}  // namespace
}  // namespace stoker::serve
