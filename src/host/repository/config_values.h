#pragma once

#include <stoker/base/status.h>
#include <stoker/host/model_config.h>

#include "repository/config_text.h"

namespace stoker::host {

/// Checks a complete configuration against the rules of its fields and turns it into plain values.
/// Errors name the field and its line. `json` and `message` are left empty.
base::Result<ModelConfig> ToValues(const ParsedConfig& parsed);

/// Whether a path from a configuration or request stays below where it is taken from: relative, no
/// "..", no empty part, no NUL.
bool IsInnerPath(std::string_view path);

}  // namespace stoker::host
