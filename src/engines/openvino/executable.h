#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <openvino/runtime/compiled_model.hpp>
#include <openvino/runtime/core.hpp>

#include <stoker/base/status.h>
#include <stoker/engines/engine.h>

#include "openvino/network.h"
#include "openvino/settings.h"

namespace stoker::engines::internal {

/// What measuring a model decided; kept so that a reload need not measure again.
struct TuningChoice {
  bool static_rows = false;    // one more compilation per usual batch size beside the one for all
  bool static_single = false;  // one more compilation for single rows beside the one for all
  bool row_by_row = false;     // the file's batch cannot be changed: rows are run in groups of that size
  int streams = 1;             // instances that run at once
  int64_t rows_best = 0;       // rows beyond which a batch gains nothing; 0: none found
  std::string why;
};

/// A compilation of a network. `rows` is its fixed batch, 0 when it takes any number.
struct Variant {
  int64_t rows = 0;
  ov::CompiledModel compiled;
};

/// A network ready to run. Immutable; shared by all instances, so that weights exist once.
struct Executable {
  Network network;
  std::vector<Variant> variants;  // ascending `rows`; the one for any number of rows comes first
  TuningChoice choice;
  int threads = 1;
};

/// Compiles a network, measuring for three seconds at most what suits it best unless `remembered`
/// tells. Uses all of the model's cores meanwhile.
base::Result<Executable> BuildExecutable(ov::Core& core, Network network, const OpenvinoSettings& settings,
                                         const std::vector<int64_t>& sizes_wanted,
                                         const TuningChoice* remembered);

/// Batch sizes to compile for: powers of two up to the maximum, the maximum, wanted ones; at most 10.
std::vector<int64_t> StaticSizes(int64_t rows_max, const std::vector<int64_t>& wanted);

/// OpenVINO's CPU plugin computes 64-bit whole numbers with 32 bits and cuts larger ones without a
/// word: kInvalidArgument names the input that holds one. Also what a Run checks.
base::Status CheckValues(const Network& network, std::span<const tensor::Tensor> inputs);

/// An instance of it. `executable` must outlive it.
base::Result<std::unique_ptr<EngineInstance>> MakeOpenvinoInstance(const Executable& executable);

}  // namespace stoker::engines::internal
