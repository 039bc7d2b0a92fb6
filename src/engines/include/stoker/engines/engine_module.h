#pragma once

#include <cstdint>

#include <stoker/engines/engine.h>

namespace stoker::engines {

/// Raised by hand when the meaning of the Engine interface changes without a size changing.
inline constexpr uint64_t kEngineAbiVersion = 1;

/// What a module must have been compiled against to be usable by this program: the version above,
/// mixed with the sizes of what crosses the border.
constexpr uint64_t EngineAbi() {
  uint64_t abi = kEngineAbiVersion;
  for (const uint64_t size : {sizeof(ModelSpec), sizeof(TensorSpec), sizeof(ModelDescription), sizeof(Batch),
                              sizeof(tensor::Tensor), sizeof(InstanceTraits), sizeof(base::Status)}) {
    abi = abi * 1099511628211u + size;
  }
  return abi;
}

}  // namespace stoker::engines

/// An engine module is a shared library that exports these two C functions. It is never unloaded.
///   uint64_t stoker_engine_abi()      EngineAbi() as the module was compiled
///   stoker::engines::Engine* stoker_engine_make()   the caller owns it
extern "C" {
using StokerEngineAbiFunction = uint64_t();
using StokerEngineMakeFunction = stoker::engines::Engine*();
}
