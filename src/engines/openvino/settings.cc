#include "openvino/settings.h"

#include <cpuid.h>

#include <algorithm>
#include <array>

#include <stoker/base/str_cat.h>

#include "parameters_internal.h"

namespace stoker::engines::internal {
namespace {

constexpr int64_t kThreadsMax = 4096;

std::string Lower(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

base::Status Unknown(const ModelSpec& spec, std::string_view key, std::string_view wanted) {
  return base::InvalidArgument(base::StrCat(ModelLabel(spec), ": parameter '", key, "' has the value ",
                                            base::Quoted(*FindParameter(spec, key)), "; expected ", wanted));
}

// Processors that report AMX may fault when it is used, which would end the process; OpenVINO uses it for
// bf16.
bool ReportsAmx() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kAmxTile = 1U << 24;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & kAmxTile) != 0;
}

base::Status ReadOwnParameters(const ModelSpec& spec, OpenvinoSettings* settings) {
  if (spec.backend == "openvino" && !ReportsAmx()) settings->precision = Precision::kNative;
  if (const std::string* mode = FindParameter(spec, "stoker.batch_mode")) {
    if (*mode == "auto")
      settings->batch_mode = BatchMode::kAuto;
    else if (*mode == "dynamic")
      settings->batch_mode = BatchMode::kDynamic;
    else if (*mode == "static")
      settings->batch_mode = BatchMode::kStatic;
    else
      return Unknown(spec, "stoker.batch_mode", "auto, dynamic or static");
  }
  if (const std::string* precision = FindParameter(spec, "stoker.precision")) {
    if (*precision == "native")
      settings->precision = Precision::kNative;
    else if (*precision == "fp32")
      settings->precision = Precision::kFp32;
    else if (*precision == "bf16")
      settings->precision = Precision::kBf16;
    else if (*precision == "fp16")
      settings->precision = Precision::kFp16;
    else
      return Unknown(spec, "stoker.precision", "native, fp32, bf16 or fp16");
  }
  return base::OkStatus();
}

// The thread counts of the three backends whose models come here; 0 means "as many as there are".
base::Status ReadThreads(const ModelSpec& spec, OpenvinoSettings* settings) {
  settings->threads = std::max(spec.cores, 1);
  for (const std::string_view key :
       {"INFERENCE_NUM_THREADS", "CPU_THREADS_NUM", "intra_op_thread_count", "TF_NUM_INTRA_THREADS"}) {
    STOKER_ASSIGN_OR_RETURN(const auto threads, IntParameter(spec, key, {.max = kThreadsMax}));
    if (threads.value_or(0) > 0) settings->threads = std::min(settings->threads, static_cast<int>(*threads));
  }
  // Checked, then a hint: OpenVINO's CPU plugin has no such setting.
  return IntParameter(spec, "COMPILATION_NUM_THREADS", {.max = kThreadsMax}).status();
}

base::Status ReadStreams(const ModelSpec& spec, OpenvinoSettings* settings) {
  if (const std::string* hint = FindParameter(spec, "PERFORMANCE_HINT")) {
    const std::string value = Lower(*hint);
    if (value == "latency")
      settings->streams = 1;
    else if (value == "throughput")
      settings->streams = settings->threads;
    else
      return Unknown(spec, "PERFORMANCE_HINT", "LATENCY or THROUGHPUT");
  }
  for (const std::string_view key : {"NUM_STREAMS", "CPU_THROUGHPUT_STREAMS"}) {
    const std::string* text = FindParameter(spec, key);
    if (text == nullptr || Lower(*text) == "auto" || Lower(*text) == "numa") continue;
    STOKER_ASSIGN_OR_RETURN(const auto streams, IntParameter(spec, key, {.min = 1, .max = kThreadsMax}));
    settings->streams = static_cast<int>(*streams);
  }
  if (spec.instance_count > 0) settings->streams = spec.instance_count;
  return base::OkStatus();
}

// Parameters that Triton's backends need and this engine does not: batches are never padded, bf16 and
// memory arenas change speed only and are chosen here.
void ReadHints(const ModelSpec& spec, OpenvinoSettings* settings) {
  constexpr std::array<std::string_view, 14> kHints = {"ENABLE_BATCH_PADDING",
                                                       "COMPILATION_NUM_THREADS",
                                                       "HINT_BF16",
                                                       "ENFORCE_BF16",
                                                       "CPU_BIND_THREAD",
                                                       "inter_op_thread_count",
                                                       "execution_mode",
                                                       "enable_mem_arena",
                                                       "enable_mem_pattern",
                                                       "memory.enable_memory_arena_shrinkage",
                                                       "TF_NUM_INTER_THREADS",
                                                       "TF_USE_PER_SESSION_THREADS",
                                                       "TF_GRAPH_TAG",
                                                       "cudnn_conv_algo_search"};
  for (const std::string_view key : kHints) {
    if (FindParameter(spec, key) != nullptr) {
      base::StrAppend(&settings->hints, settings->hints.empty() ? "" : ", ", key);
    }
  }
}

}  // namespace

base::Result<OpenvinoSettings> ReadSettings(const ModelSpec& spec) {
  for (const std::string_view key : {"CPU_EXTENSION_PATH", "session.use_device_allocator_for_initializers"}) {
    if (FindParameter(spec, key) == nullptr) continue;
    return base::Unimplemented(base::StrCat(ModelLabel(spec), ": parameter '", key,
                                            "' is not supported by the openvino engine; remove it"));
  }
  if (const std::string* device = FindParameter(spec, "TARGET_DEVICE");
      device != nullptr && Lower(*device) != "cpu") {
    return base::Unimplemented(base::StrCat(ModelLabel(spec), ": parameter 'TARGET_DEVICE' asks for ",
                                            base::Quoted(*device), "; the openvino engine runs on CPU only"));
  }
  OpenvinoSettings settings;
  STOKER_RETURN_IF_ERROR(ReadOwnParameters(spec, &settings));
  STOKER_RETURN_IF_ERROR(ReadThreads(spec, &settings));
  STOKER_RETURN_IF_ERROR(ReadStreams(spec, &settings));
  STOKER_ASSIGN_OR_RETURN(const auto skip_dynamic, BoolParameter(spec, "SKIP_OV_DYNAMIC_BATCHSIZE"));
  if (skip_dynamic.value_or(false) && settings.batch_mode == BatchMode::kAuto)
    settings.batch_mode = BatchMode::kStatic;
  STOKER_ASSIGN_OR_RETURN(const auto reshape, BoolParameter(spec, "RESHAPE_IO_LAYERS"));
  settings.reshape_io = reshape.value_or(false);
  ReadHints(spec, &settings);
  return settings;
}

}  // namespace stoker::engines::internal
