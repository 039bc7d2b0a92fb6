#include "version_loader.h"

#include <utility>

#include <stoker/base/str_cat.h>

namespace stoker::host {
namespace {

engines::ModelSpec SpecOf(const ModelConfig& config, const VersionDefinition& version,
                          const Services& services) {
  engines::ModelSpec spec;
  spec.name = config.name;
  spec.version = version.version;
  spec.version_path = version.path;
  spec.filename = config.default_model_filename;
  spec.backend = config.backend;
  spec.platform = config.platform;
  spec.max_batch_size = config.max_batch_size;
  spec.parameters = config.parameters;
  const auto backend = services.backend_config.find(config.backend);
  if (backend != services.backend_config.end()) {
    // The model's own parameters win over the server's for its backend.
    spec.parameters.insert(backend->second.begin(), backend->second.end());
  }
  spec.instance_count = config.instance_count;
  spec.cores = services.cores;
  spec.batch_sizes_wanted = config.dynamic_batching.preferred_batch_sizes;
  return spec;
}

}  // namespace

VersionLoader::VersionLoader(const Services& services, bool latency_counters, Reaper* reaper)
    : services_(services), latency_counters_(latency_counters), reaper_(reaper) {}

std::shared_ptr<VersionStatistics> VersionLoader::StatisticsOf(const ModelConfig& config, int64_t version) {
  StatisticsOptions options{.model = config.name,
                            .version = base::StrCat(version),
                            .metric_tags = config.metric_tags,
                            .max_batch_size = config.max_batch_size,
                            .latency_counters = latency_counters_};
  std::string key = base::StrCat(config.name, "\n", version, "\n", config.max_batch_size);
  for (const auto& [name, value] : config.metric_tags) base::StrAppend(&key, "\n", name, "\n", value);
  base::MutexLock lock(&mutex_);
  std::erase_if(statistics_, [](const auto& entry) { return entry.second.expired(); });
  auto& known = statistics_[key];
  auto statistics = known.lock();
  if (statistics == nullptr)
    known = statistics = std::make_shared<VersionStatistics>(options, services_.clock, services_.metrics);
  return statistics;
}

base::Result<ServedRef> VersionLoader::Load(const ModelDefinition& definition,
                                            const VersionDefinition& version, std::function<void()> gone) {
  priority_.Enter();
  const int64_t start = services_.clock->NowNs();
  CoreParts parts;
  parts.config = &definition.config;
  parts.spec = SpecOf(definition.config, version, services_);
  STOKER_ASSIGN_OR_RETURN(parts.warmups, MakeWarmups(definition.config, definition.folder));
  parts.statistics = StatisticsOf(definition.config, version.version);
  auto core = ModelCore::Load(services_, std::move(parts));
  priority_.Settle();
  STOKER_RETURN_IF_ERROR(core.status());
  const double seconds = static_cast<double>(services_.clock->NowNs() - start) * 1e-9;
  (*core)->statistics().SetLoadSeconds(seconds);
  return reaper_->Watch(std::make_unique<ServedModel>(definition, version, std::move(*core)),
                        std::move(gone));
}

base::Result<ServedRef> VersionLoader::Adjust(const ServedModel& old, const ModelDefinition& definition,
                                              const VersionDefinition& version, std::function<void()> gone) {
  priority_.Enter();
  const base::Status status = old.core().SetInstances(definition.config);
  priority_.Settle();
  STOKER_RETURN_IF_ERROR(status);
  auto model = std::make_unique<ServedModel>(definition, version, old.shared_core());
  model->ContinueStatisticsOf(old);
  return reaper_->Watch(std::move(model), std::move(gone));
}

}  // namespace stoker::host
