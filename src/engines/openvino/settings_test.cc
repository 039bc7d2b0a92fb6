// Triton's parameters for the backends that the openvino engine stands in for.
#include "openvino/settings.h"

#include <gtest/gtest.h>

namespace stoker::engines::internal {
namespace {

base::Result<OpenvinoSettings> Read(std::map<std::string, std::string> parameters, int instance_count = 0) {
  ModelSpec spec;
  spec.name = "m";
  spec.cores = 8;
  spec.instance_count = instance_count;
  spec.parameters = std::move(parameters);
  return ReadSettings(spec);
}

TEST(OpenvinoSettingsTest, DefaultsMeasure) {
  const auto settings = Read({});
  ASSERT_TRUE(settings.ok());
  EXPECT_EQ(settings->threads, 8);
  EXPECT_EQ(settings->streams, 0);
  EXPECT_EQ(settings->batch_mode, BatchMode::kAuto);
  EXPECT_EQ(settings->precision, Precision::kFp32);
}

TEST(OpenvinoSettingsTest, ThreadsAndStreams) {
  EXPECT_EQ(Read({{"INFERENCE_NUM_THREADS", "3"}})->threads, 3);
  EXPECT_EQ(Read({{"INFERENCE_NUM_THREADS", "0"}})->threads, 8);
  EXPECT_EQ(Read({{"INFERENCE_NUM_THREADS", "99"}})->threads, 8);
  EXPECT_EQ(Read({{"intra_op_thread_count", "2"}})->threads, 2);
  EXPECT_EQ(Read({{"PERFORMANCE_HINT", "LATENCY"}})->streams, 1);
  EXPECT_EQ(Read({{"PERFORMANCE_HINT", "throughput"}})->streams, 8);
  EXPECT_EQ(Read({{"NUM_STREAMS", "2"}})->streams, 2);
  EXPECT_EQ(Read({{"NUM_STREAMS", "AUTO"}})->streams, 0);
  EXPECT_EQ(Read({{"NUM_STREAMS", "2"}}, 5)->streams, 5);
}

TEST(OpenvinoSettingsTest, OwnParameters) {
  EXPECT_EQ(Read({{"stoker.batch_mode", "static"}})->batch_mode, BatchMode::kStatic);
  EXPECT_EQ(Read({{"stoker.batch_mode", "dynamic"}})->batch_mode, BatchMode::kDynamic);
  EXPECT_EQ(Read({{"SKIP_OV_DYNAMIC_BATCHSIZE", "yes"}})->batch_mode, BatchMode::kStatic);
  EXPECT_EQ(Read({{"stoker.precision", "bf16"}})->precision, Precision::kBf16);
  EXPECT_TRUE(Read({{"RESHAPE_IO_LAYERS", "true"}})->reshape_io);
}

// Triton's openvino backend leaves the arithmetic to OpenVINO; its other backends compute in fp32. Where the
// processor reports AMX, fp32 stays the default everywhere.
TEST(OpenvinoSettingsTest, PrecisionFollowsTheBackend) {
  ModelSpec spec;
  spec.backend = "openvino";
  const Precision chosen = ReadSettings(spec)->precision;
  EXPECT_TRUE(chosen == Precision::kNative || chosen == Precision::kFp32);
  spec.parameters["stoker.precision"] = "fp32";
  EXPECT_EQ(ReadSettings(spec)->precision, Precision::kFp32);
  spec.parameters["stoker.precision"] = "native";
  EXPECT_EQ(ReadSettings(spec)->precision, Precision::kNative);
  spec.backend = "onnxruntime";
  spec.parameters.clear();
  EXPECT_EQ(ReadSettings(spec)->precision, Precision::kFp32);
}

TEST(OpenvinoSettingsTest, PrecisionFollowsTheBackendUnlessSet) {
  ModelSpec spec;
  spec.name = "m";
  spec.backend = "onnxruntime";
  EXPECT_EQ(ReadSettings(spec)->precision, Precision::kFp32);
  spec.parameters["stoker.precision"] = "native";
  EXPECT_EQ(ReadSettings(spec)->precision, Precision::kNative);
  spec.backend = "openvino";
  spec.parameters["stoker.precision"] = "fp32";
  EXPECT_EQ(ReadSettings(spec)->precision, Precision::kFp32);
}

TEST(OpenvinoSettingsTest, HintsAreNamed) {
  EXPECT_EQ(
      Read({{"ENABLE_BATCH_PADDING", "YES"}, {"HINT_BF16", "YES"}, {"COMPILATION_NUM_THREADS", "2"}})->hints,
      "ENABLE_BATCH_PADDING, COMPILATION_NUM_THREADS, HINT_BF16");
}

TEST(OpenvinoSettingsTest, WhatCannotBeDoneIsRefusedByName) {
  for (const auto& [key, value] : std::map<std::string, std::string>{{"stoker.batch_mode", "sometimes"},
                                                                     {"stoker.precision", "int1"},
                                                                     {"PERFORMANCE_HINT", "FAST"},
                                                                     {"NUM_STREAMS", "-1"},
                                                                     {"INFERENCE_NUM_THREADS", "many"},
                                                                     {"COMPILATION_NUM_THREADS", "-3"},
                                                                     {"RESHAPE_IO_LAYERS", "perhaps"},
                                                                     {"CPU_EXTENSION_PATH", "/x.so"},
                                                                     {"TARGET_DEVICE", "GPU"}}) {
    const auto settings = Read({{key, value}});
    ASSERT_FALSE(settings.ok()) << key;
    EXPECT_NE(settings.status().message().find(key), std::string::npos) << settings.status().message();
    EXPECT_NE(settings.status().message().find("model 'm'"), std::string::npos)
        << settings.status().message();
  }
}

}  // namespace
}  // namespace stoker::engines::internal
