#pragma once

#include <span>
#include <string_view>

#include <stoker/base/status.h>
#include <stoker/engines/engine.h>

namespace stoker::host {

/// The engines that this process has. Thread-safe; outlives everything made from it.
class EngineSet {
 public:
  virtual ~EngineSet() = default;
  /// The engine that runs models configured so. kNotFound with Triton's text when there is none, the
  /// reason when there is one that cannot be opened.
  virtual base::Result<engines::Engine*> ForConfig(std::string_view backend, std::string_view platform) = 0;
  /// All engines, in order of preference, for completing a configuration from the files of a version.
  /// Engines that cannot be opened are left out.
  virtual std::span<engines::Engine* const> all() = 0;
};

}  // namespace stoker::host
