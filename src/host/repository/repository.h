#pragma once

#include <memory>
#include <string>
#include <vector>

#include <stoker/base/status.h>
#include <stoker/host/host.h>

#include "engine_set.h"
#include "model_source.h"

namespace stoker::host {

/// Models from repository folders (or the one file of `single_model_file`). Reads the folders anew on
/// every call; keeps nothing but its options. `engines` outlives it.
std::unique_ptr<ModelSource> MakeFolderSource(const HostOptions& options, EngineSet* engines);

}  // namespace stoker::host
