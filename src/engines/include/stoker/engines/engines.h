#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <stoker/engines/engine.h>

namespace stoker::engines {

struct EngineOptions {
  /// Folders searched for engine modules (libstoker_openvino.so) before the usual ones: beside the
  /// executable, ../lib/stoker and lib/stoker from there.
  std::vector<std::string> module_folders;
  /// Lets that much time pass, for engines with a configured delay or cost. Called from many threads.
  /// Empty: the calling thread sleeps.
  std::function<void(int64_t duration_ns)> sleep_ns;
};

/// Every engine that this build knows, in the order to ask them. Heavy ones are modules that are
/// opened at their first Describe or Load; one that cannot be opened refuses models with the reason.
std::vector<std::unique_ptr<Engine>> MakeEngines(const EngineOptions& options = {});

/// The engine among `engines` that serves this backend or platform; null when none does.
Engine* FindEngine(const std::vector<std::unique_ptr<Engine>>& engines, std::string_view backend,
                   std::string_view platform);

/// Triton's backend "identity": OUTPUT<i> is INPUT<i>, passed on without a copy.
std::unique_ptr<Engine> MakeIdentityEngine(const EngineOptions& options = {});

/// Backend "stoker_fake", for tests and simulations: every element of an output row is a weighted sum
/// of the whole input row (ExpectedFakeValue), after a configurable cost. Parameters:
///   stoker.cost_base_us, stoker.cost_per_row_us  time that a Run takes (default 0)
///   stoker.fail_every                            every n-th Run of the model fails (default 0: never)
///   stoker.scale                                 factor of the answers (default 1)
std::unique_ptr<Engine> MakeFakeEngine(const EngineOptions& options = {});

/// Element `column` of an output row of the fake engine, given the sum of each input's row, in order.
double ExpectedFakeValue(double scale, size_t column, const std::vector<double>& input_row_sums);

}  // namespace stoker::engines
