#pragma once

#include <string>
#include <utility>
#include <vector>

namespace stoker::engines::testing {

/// Files of a version folder: relative name and content.
using ModelFiles = std::vector<std::pair<std::string, std::string>>;

/// y = 2·x + offset with x and y FP32 [1, width], in the formats other than ONNX.
ModelFiles IrModel(int width, float offset);
ModelFiles SavedModel(int width, float offset);
ModelFiles GraphDefModel(int width, float offset);
ModelFiles TfliteModel(int width, float offset);

}  // namespace stoker::engines::testing
