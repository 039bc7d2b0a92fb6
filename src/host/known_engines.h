#pragma once

#include <memory>
#include <string>

#include <stoker/base/status.h>

#include "engine_set.h"

namespace stoker::host {

/// Every engine of this build; modules are looked for in `folder` first (empty: the usual places only).
std::unique_ptr<EngineSet> MakeKnownEngines(const std::string& folder);

}  // namespace stoker::host
