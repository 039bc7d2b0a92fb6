#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <stoker/base/status.h>
#include <stoker/engines/engine.h>

namespace stoker::engines::internal {

/// The parameter `key` of a model's configuration, or null.
const std::string* FindParameter(const ModelSpec& spec, std::string_view key);

/// Bounds of a whole number.
struct IntRange {
  int64_t min = 0;
  int64_t max = INT64_MAX;
};

/// A whole number; nothing when the parameter is absent. kInvalidArgument names model, key and range.
base::Result<std::optional<int64_t>> IntParameter(const ModelSpec& spec, std::string_view key,
                                                  IntRange range);

/// A finite decimal number; nothing when the parameter is absent.
base::Result<std::optional<double>> RealParameter(const ModelSpec& spec, std::string_view key);

/// YES, TRUE, ON, 1 or NO, FALSE, OFF, 0 in any case; nothing when the parameter is absent.
base::Result<std::optional<bool>> BoolParameter(const ModelSpec& spec, std::string_view key);

/// "model 'name' version 3"
std::string ModelLabel(const ModelSpec& spec);

}  // namespace stoker::engines::internal
