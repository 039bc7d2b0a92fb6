#include <stoker/engines/engines.h>

#include "module_engine_internal.h"
#include "openvino/openvino_names.h"

namespace stoker::engines {

std::vector<std::unique_ptr<Engine>> MakeEngines(const EngineOptions& options) {
  std::vector<std::string> folders = options.module_folders;
  for (std::string& folder : internal::StandardModuleFolders()) folders.push_back(std::move(folder));
  std::vector<std::unique_ptr<Engine>> engines;
  engines.push_back(MakeIdentityEngine(options));
  engines.push_back(MakeFakeEngine(options));
  engines.push_back(
      internal::MakeModuleEngine({.name = internal::kOpenvinoName,
                                  .file = internal::kOpenvinoModuleFile,
                                  .advice = "Build Stoker where the Python package openvino is installed "
                                            "(./dev build does so), or put the module "
                                            "of a package of the same version beside the executable",
                                  .serves = internal::OpenvinoServes,
                                  .filenames = internal::OpenvinoFilenames,
                                  .backend_for = internal::OpenvinoBackendFor,
                                  .parameters = internal::OpenvinoParameters},
                                 std::move(folders)));
  return engines;
}

Engine* FindEngine(const std::vector<std::unique_ptr<Engine>>& engines, std::string_view backend,
                   std::string_view platform) {
  for (const std::unique_ptr<Engine>& engine : engines) {
    if (engine->Serves(backend, platform)) return engine.get();
  }
  return nullptr;
}

}  // namespace stoker::engines
