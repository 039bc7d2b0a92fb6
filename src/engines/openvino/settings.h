#pragma once

#include <cstdint>
#include <string>

#include <stoker/base/status.h>
#include <stoker/engines/engine.h>

namespace stoker::engines::internal {

enum class BatchMode : uint8_t { kAuto, kDynamic, kStatic };
/// kNative: what OpenVINO chooses for the processor (bf16 where it computes with it, fp32 elsewhere).
enum class Precision : uint8_t { kFp32, kBf16, kFp16, kNative };

/// How a model is to be run, read out of its configuration. Plain values; 0 and kAuto: measure.
struct OpenvinoSettings {
  BatchMode batch_mode = BatchMode::kAuto;
  Precision precision = Precision::kFp32;
  int threads = 1;          // of all instances together
  int streams = 0;          // instances that run at once
  bool reshape_io = false;  // the configuration's dims may override fixed ones of the file
  std::string hints;        // parameters that change nothing here, for the banner
};

/// Reads Triton's openvino, onnxruntime and tensorflow parameters and our own:
///   stoker.batch_mode  auto | dynamic | static
///   stoker.precision   native | fp32 | bf16 | fp16; by default native for models configured for the
///                      openvino backend, which computes so in Triton too, and fp32 for all others
/// kInvalidArgument names the parameter; kUnimplemented one that would change answers.
base::Result<OpenvinoSettings> ReadSettings(const ModelSpec& spec);

}  // namespace stoker::engines::internal
