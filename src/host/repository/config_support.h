#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <stoker/base/status.h>

#include "repository/config_text.h"

namespace stoker::host {

/// Refuses a configuration that uses a feature which changes answers and is not here, naming the field
/// and its line; adds a line to `warnings` for each hint that has no effect here.
base::Status CheckSupported(const ParsedConfig& parsed, std::vector<std::string>* warnings);

/// Refuses a parameter "stoker.…" that neither the batcher nor the engine knows (`engine_parameters`); adds
/// a line to `warnings` for each other key that the engine does not know.
base::Status CheckParameters(const ParsedConfig& parsed, std::span<const std::string_view> engine_parameters,
                             std::vector<std::string>* warnings);

}  // namespace stoker::host
