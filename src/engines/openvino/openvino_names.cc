#include "openvino/openvino_names.h"

#include <algorithm>
#include <array>

namespace stoker::engines::internal {
namespace {

// Triton's names for the kinds of file that OpenVINO's frontends read.
constexpr std::array<std::string_view, 4> kBackends = {"openvino", "onnxruntime", "onnxruntime_onnx", "tensorflow"};
constexpr std::array<std::string_view, 5> kPlatforms = {"openvino", "onnxruntime_onnx", "tensorflow_savedmodel",
                                                        "tensorflow_graphdef", "onnxruntime"};
constexpr std::array<std::string_view, 5> kFilenames = {"model.onnx", "model.xml", "model.savedmodel",
                                                        "model.graphdef", "model.tflite"};
constexpr std::array<std::string_view, 10> kParameters = {
    "PERFORMANCE_HINT",  "INFERENCE_NUM_THREADS",     "COMPILATION_NUM_THREADS", "HINT_BF16",          "NUM_STREAMS",
    "SKIP_OV_DYNAMIC_BATCHSIZE", "ENABLE_BATCH_PADDING", "RESHAPE_IO_LAYERS",  "CPU_EXTENSION_PATH", "TARGET_DEVICE"};

bool Holds(std::span<const std::string_view> list, std::string_view value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

}  // namespace

bool OpenvinoServes(std::string_view backend, std::string_view platform) {
  if (!backend.empty()) return Holds(kBackends, backend);
  return Holds(kPlatforms, platform);
}

std::span<const std::string_view> OpenvinoFilenames() { return kFilenames; }

std::string_view OpenvinoBackendFor(std::string_view filename) {
  if (filename.ends_with(".onnx")) return "onnxruntime";
  if (filename.ends_with(".savedmodel") || filename.ends_with(".graphdef")) return "tensorflow";
  return "openvino";
}

std::span<const std::string_view> OpenvinoParameters() { return kParameters; }

}  // namespace stoker::engines::internal
