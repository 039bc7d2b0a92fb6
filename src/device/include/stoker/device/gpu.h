#pragma once

#include <string>

namespace stoker::device {

/// Where GPUs show; tests give folders of their own.
struct GpuSources {
  std::string dev = "/dev";
  std::string driver = "libcuda.so.1";  // opened at run time, never linked
};

/// The GPUs that this process sees, such as "NVIDIA H200" or "2 × NVIDIA L4"; empty when there is none
/// or no driver. Does not make a context on any.
std::string SeenGpu(const GpuSources& sources = {});

}  // namespace stoker::device
