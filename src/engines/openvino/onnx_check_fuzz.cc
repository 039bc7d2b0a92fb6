// Any bytes must be walked without a fault; locations found must be bounded.
#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>

#include <stoker/base/check.h>

#include "openvino/onnx_check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::istringstream stream(std::string(reinterpret_cast<const char*>(data), size));
  const auto locations = stoker::engines::internal::ExternalDataLocations(stream);
  if (locations.ok()) CHECK(locations->size() <= size);
  return 0;
}
