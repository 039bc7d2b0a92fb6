#pragma once

#include <istream>
#include <string>
#include <vector>

#include <stoker/base/status.h>

namespace stoker::engines::internal {

/// Walks the protobuf of an ONNX model, without loading it, and returns the locations of all external
/// data that its tensors name, each once. Big fields are skipped, not read. kInvalidArgument with the
/// offset when the bytes are no such protobuf, nest deeper than 100 messages or name more than 100,000
/// locations. `stream` must be seekable.
base::Result<std::vector<std::string>> ExternalDataLocations(std::istream& stream);

/// Checks an ONNX file before a runtime opens it: it is well-formed, and every external data location
/// is a relative path to a file inside the model's own folder (also through symbolic links), so that a
/// model cannot read files of others. Messages name file and location.
base::Status CheckOnnxFile(const std::string& path);

}  // namespace stoker::engines::internal
