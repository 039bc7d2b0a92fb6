#pragma once

#include <string>

#include <stoker/base/status.h>
#include <stoker/engines/engine.h>

#include "engine_set.h"
#include "repository/config_text.h"

namespace stoker::host {

struct CompletionContext {
  std::string model;         // the folder's name
  std::string version_path;  // of a version to look into; empty when there is none
  int64_t default_max_batch_size = 4;
  bool disabled = false;  // --disable-auto-complete-config
};

/// Finds the engine for a configuration, filling in backend, platform and file name from each other
/// and from what lies in the version folder. kNotFound when no engine fits.
base::Result<engines::Engine*> CompleteEngine(const CompletionContext& context, EngineSet* engines,
                                              inference::ModelConfig* config);

/// Completes inputs, outputs and batching from what the model file says, and checks that what the
/// configuration says agrees with it.
base::Status CompleteTensors(const CompletionContext& context, engines::Engine* engine,
                             const ParsedConfig& parsed, inference::ModelConfig* config);

/// Puts in the defaults that the protocol shows: version policy, instance groups, pinned memory flags,
/// preferred batch sizes.
void FillDefaults(inference::ModelConfig* config);

}  // namespace stoker::host
