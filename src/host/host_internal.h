#pragma once

#include <memory>

#include <stoker/host/host.h>

#include "engine_set.h"
#include "model_source.h"

namespace stoker::host::internal {

/// What Host::Make puts together; tests bring their own.
struct HostParts {
  std::unique_ptr<EngineSet> engines;
  std::unique_ptr<ModelSource> source;
};

base::Result<std::unique_ptr<Host>> MakeHost(HostOptions options, const Host::Dependencies& dependencies,
                                             HostParts parts);

}  // namespace stoker::host::internal
