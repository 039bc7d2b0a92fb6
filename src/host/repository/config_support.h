#pragma once

#include <string>
#include <vector>

#include <stoker/base/status.h>

#include "repository/config_text.h"

namespace stoker::host {

/// Refuses a configuration that uses a feature which changes answers and is not here, naming the field
/// and its line; adds a line to `warnings` for each hint that has no effect here.
base::Status CheckSupported(const ParsedConfig& parsed, std::vector<std::string>* warnings);

}  // namespace stoker::host
