#include "module_engine_internal.h"

#include <dlfcn.h>

#include <filesystem>

#include <stoker/base/mutex.h>
#include <stoker/base/str_cat.h>
#include <stoker/engines/engine_module.h>

namespace stoker::engines::internal {
namespace {

std::string LoaderError() {
  const char* text = dlerror();
  return text == nullptr ? "unknown reason" : text;
}

// Opens one file and makes its engine. The handle is kept open for good: threads and code of the
// library may outlive every model.
base::Result<std::unique_ptr<Engine>> OpenModule(const std::string& path) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return base::Unavailable(LoaderError());
  const auto abi = reinterpret_cast<StokerEngineAbiFunction*>(dlsym(handle, "stoker_engine_abi"));
  const auto make = reinterpret_cast<StokerEngineMakeFunction*>(dlsym(handle, "stoker_engine_make"));
  if (abi == nullptr || make == nullptr) {
    return base::FailedPrecondition(base::StrCat(path,
                                                 " is not an engine module: it lacks stoker_engine_abi or "
                                                 "stoker_engine_make"));
  }
  if (const uint64_t got = abi(); got != EngineAbi()) {
    return base::FailedPrecondition(base::StrCat(path, " was built for another version of Stoker (interface ",
                                                 got, ", wanted ", EngineAbi(),
                                                 "); build or install both together"));
  }
  return std::unique_ptr<Engine>(make());
}

class ModuleEngine final : public Engine {
 public:
  ModuleEngine(const ModuleFacts& facts, std::vector<std::string> folders)
      : facts_(facts), folders_(std::move(folders)) {}

  std::string_view name() const override { return facts_.name; }
  bool Serves(std::string_view backend, std::string_view platform) const override {
    return facts_.serves(backend, platform);
  }
  std::span<const std::string_view> default_filenames() const override { return facts_.filenames(); }
  std::string_view backend_for(std::string_view filename) const override {
    return facts_.backend_for(filename);
  }
  std::span<const std::string_view> parameters() const override { return facts_.parameters(); }

  base::Result<ModelDescription> Describe(const ModelSpec& spec) override {
    STOKER_ASSIGN_OR_RETURN(Engine* const engine, Open());
    return engine->Describe(spec);
  }
  base::Result<std::unique_ptr<EngineModel>> Load(const ModelSpec& spec) override {
    STOKER_ASSIGN_OR_RETURN(Engine* const engine, Open());
    return engine->Load(spec);
  }

 private:
  base::Result<Engine*> Open() {
    base::MutexLock lock(&mutex_);
    if (engine_ != nullptr) return engine_.get();
    std::string tried;
    for (const std::string& folder : folders_) {
      const std::string path = base::StrCat(folder, "/", facts_.file);
      std::error_code error;
      if (!std::filesystem::exists(path, error)) {
        base::StrAppend(&tried, tried.empty() ? "" : ", ", folder);
        continue;
      }
      auto opened = OpenModule(path);
      if (!opened.ok()) {
        return base::Unavailable(base::StrCat("cannot open the ", facts_.name,
                                              " engine: ", opened.status().message(), ". ", facts_.advice));
      }
      engine_ = std::move(opened).value();
      return engine_.get();
    }
    return base::Unavailable(base::StrCat("this model needs the ", facts_.name, " engine, but ", facts_.file,
                                          " is in none of: ", tried, ". ", facts_.advice));
  }

  const ModuleFacts facts_;
  const std::vector<std::string> folders_;
  base::Mutex mutex_;
  std::unique_ptr<Engine> engine_ GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<Engine> MakeModuleEngine(const ModuleFacts& facts, std::vector<std::string> folders) {
  return std::make_unique<ModuleEngine>(facts, std::move(folders));
}

std::vector<std::string> StandardModuleFolders() {
  std::error_code error;
  const std::filesystem::path executable = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return {};
  const std::filesystem::path folder = executable.parent_path();
  return {folder.string(), (folder / "../lib/stoker").lexically_normal().string(),
          (folder / "lib/stoker").string()};
}

}  // namespace stoker::engines::internal
