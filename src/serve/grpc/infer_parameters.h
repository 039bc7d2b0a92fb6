#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <stoker/base/status.h>
#include <stoker/host/request.h>

namespace stoker::serve {

/// One entry of a map<string, InferParameter>.
struct WireParameter {
  std::string_view key;                       // a view of the message
  std::optional<host::ParameterValue> value;  // nothing: no choice was set
};

/// Reads the map entry `entry`; kInternal when it is no such thing.
base::Result<WireParameter> ReadParameter(std::string_view entry);

/// Of several entries with one key the last counts, as in every protobuf map. Sorts by key.
void KeepLastOfEachKey(std::vector<WireParameter>* parameters);

/// INVALID_ARGUMENT for a value that is not of the `wanted` kinds ("bool_param").
base::Status WrongParameterKind(std::string_view key, std::string_view wanted);

}  // namespace stoker::serve
