#include "known_engines.h"

#include <utility>
#include <vector>

#include <stoker/base/str_cat.h>
#include <stoker/engines/engines.h>

namespace stoker::host {
namespace {

class KnownEngines final : public EngineSet {
 public:
  explicit KnownEngines(std::vector<std::unique_ptr<engines::Engine>> engines)
      : engines_(std::move(engines)) {
    for (const auto& engine : engines_) pointers_.push_back(engine.get());
  }

  base::Result<engines::Engine*> ForConfig(std::string_view backend, std::string_view platform) override {
    if (engines::Engine* engine = engines::FindEngine(engines_, backend, platform); engine != nullptr)
      return engine;
    std::string known;
    for (const auto& engine : engines_) base::StrAppend(&known, known.empty() ? "" : ", ", engine->name());
    return base::NotFound(base::StrCat("unable to find backend library for backend ", base::Quoted(backend),
                                       ", platform ", base::Quoted(platform), "; this build has ", known));
  }
  std::span<engines::Engine* const> all() override { return pointers_; }

 private:
  const std::vector<std::unique_ptr<engines::Engine>> engines_;
  std::vector<engines::Engine*> pointers_;
};

}  // namespace

std::unique_ptr<EngineSet> MakeKnownEngines(const std::string& folder) {
  engines::EngineOptions options;
  if (!folder.empty()) options.module_folders.push_back(folder);
  return std::make_unique<KnownEngines>(engines::MakeEngines(options));
}

}  // namespace stoker::host
