#include "served_model.h"

#include <utility>

#include <stoker/base/str_cat.h>

namespace stoker::host {
namespace {

std::vector<TensorInfo> Infos(const ModelConfig& config, const std::vector<IoConfig>& ios,
                              const std::vector<std::vector<std::string>>& labels) {
  std::vector<TensorInfo> infos;
  for (size_t i = 0; i < ios.size(); ++i) {
    const IoConfig& io = ios[i];
    infos.push_back({.name = io.name,
                     .type = io.type,
                     .dims = io.dims,
                     .metadata_shape = config.max_batch_size > 0 ? io.dims.WithLeading(-1) : io.dims,
                     .optional = io.optional,
                     .ragged = io.allow_ragged_batch,
                     .labels = i < labels.size() ? labels[i] : std::vector<std::string>()});
  }
  return infos;
}

std::string DescribeBatching(const ModelConfig& config) {
  if (config.max_batch_size == 0) return "no batch dimension";
  if (!config.has_dynamic_batching)
    return base::StrCat("up to ", config.max_batch_size, " rows a request, requests run alone");
  std::string out = base::StrCat("dynamic, up to ", config.max_batch_size);
  const DynamicBatchingConfig& batching = config.dynamic_batching;
  for (size_t i = 0; i < batching.preferred_batch_sizes.size(); ++i) {
    base::StrAppend(&out, i == 0 ? ", preferred " : "/", batching.preferred_batch_sizes[i]);
  }
  if (batching.max_queue_delay_us > 0) base::StrAppend(&out, ", delay ", batching.max_queue_delay_us, " us");
  if (batching.priority_levels > 0) base::StrAppend(&out, ", ", batching.priority_levels, " priorities");
  if (batching.preserve_ordering) out += ", in order";
  return out;
}

}  // namespace

ServedModel::ServedModel(const ModelDefinition& definition, const VersionDefinition& version,
                         std::shared_ptr<ModelCore> core)
    : version_(version.version),
      config_(definition.config),
      config_fingerprint_(definition.config_fingerprint),
      version_fingerprint_(version.fingerprint),
      owner_(definition.owner),
      inputs_(Infos(config_, config_.inputs, {})),
      outputs_(Infos(config_, config_.outputs, definition.labels)),
      core_(std::move(core)),
      before_(core_->statistics().Read()) {}

bool ServedModel::SameAs(const ModelDefinition& definition, const VersionDefinition& version) const {
  return version_ == version.version && config_fingerprint_ == definition.config_fingerprint &&
         version_fingerprint_ == version.fingerprint && owner_ == nullptr && definition.owner == nullptr;
}

ModelSummary ServedModel::Summary() const {
  const size_t instances = core_->instances();
  return {.name = config_.name,
          .version = version_,
          .backend = config_.backend.empty() ? config_.platform : config_.backend,
          .engine = core_->engine_name(),
          .batching = DescribeBatching(config_),
          .instances = base::StrCat(instances, instances == 1 ? " instance" : " instances",
                                    core_->runs_inline() ? ", short runs on the receiving thread" : ""),
          .choices = core_->choices()};
}

}  // namespace stoker::host
