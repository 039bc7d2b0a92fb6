#include "openvino/openvino_names.h"

#include <algorithm>
#include <array>

namespace stoker::engines::internal {
namespace {

// Triton's names for the kinds of file that OpenVINO's frontends read.
constexpr std::array<std::string_view, 4> kBackends = {"openvino", "onnxruntime", "onnxruntime_onnx",
                                                       "tensorflow"};
constexpr std::array<std::string_view, 5> kPlatforms = {
    "openvino", "onnxruntime_onnx", "tensorflow_savedmodel", "tensorflow_graphdef", "onnxruntime"};
constexpr std::array<std::string_view, 5> kFilenames = {"model.onnx", "model.xml", "model.savedmodel",
                                                        "model.graphdef", "model.tflite"};
// Stoker's own, and those of Triton's openvino, onnxruntime and tensorflow backends; settings.cc reads each.
constexpr std::array<std::string_view, 28> kParameters = {"stoker.batch_mode",
                                                          "stoker.precision",
                                                          "PERFORMANCE_HINT",
                                                          "INFERENCE_NUM_THREADS",
                                                          "COMPILATION_NUM_THREADS",
                                                          "HINT_BF16",
                                                          "NUM_STREAMS",
                                                          "SKIP_OV_DYNAMIC_BATCHSIZE",
                                                          "ENABLE_BATCH_PADDING",
                                                          "RESHAPE_IO_LAYERS",
                                                          "CPU_EXTENSION_PATH",
                                                          "TARGET_DEVICE",
                                                          "CPU_THREADS_NUM",
                                                          "ENFORCE_BF16",
                                                          "CPU_BIND_THREAD",
                                                          "CPU_THROUGHPUT_STREAMS",
                                                          "intra_op_thread_count",
                                                          "inter_op_thread_count",
                                                          "execution_mode",
                                                          "enable_mem_arena",
                                                          "enable_mem_pattern",
                                                          "memory.enable_memory_arena_shrinkage",
                                                          "session.use_device_allocator_for_initializers",
                                                          "cudnn_conv_algo_search",
                                                          "TF_NUM_INTRA_THREADS",
                                                          "TF_NUM_INTER_THREADS",
                                                          "TF_USE_PER_SESSION_THREADS",
                                                          "TF_GRAPH_TAG"};

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
