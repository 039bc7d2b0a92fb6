#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <stoker/host/host.h>
#include <stoker/host/model.h>

#include "model_core.h"
#include "model_source.h"

namespace stoker::host {

/// One loaded version with one configuration: what doors see of it, and the core that runs it.
class ServedModel final : public Model {
 public:
  /// `core` may be shared with another ServedModel when only the number of instances differs.
  ServedModel(const ModelDefinition& definition, const VersionDefinition& version,
              std::shared_ptr<ModelCore> core);

  const std::string& name() const override { return config_.name; }
  int64_t version() const override { return version_; }
  const std::string& platform() const override {
    return config_.platform.empty() ? config_.backend : config_.platform;
  }
  int64_t max_batch_size() const override { return config_.max_batch_size; }
  std::span<const TensorInfo> inputs() const override { return inputs_; }
  std::span<const TensorInfo> outputs() const override { return outputs_; }
  const std::string& config_json() const override { return config_.json; }
  const std::string& config_message() const override { return config_.message; }
  bool runs_inline() const override { return core_->runs_inline(); }

  ModelCore& core() const { return *core_; }
  const std::shared_ptr<ModelCore>& shared_core() const { return core_; }
  std::shared_ptr<ModelCore> ReleaseCore() { return std::move(core_); }

  /// Whether a version made from these would be the same but for the number of instances.
  bool SameAs(const ModelDefinition& definition, const VersionDefinition& version) const;
  /// What this version and those that share its core have done.
  ModelStatistics Statistics() const { return Difference(core_->statistics().Read(), before_); }
  void ContinueStatisticsOf(const ServedModel& other) { before_ = other.before_; }
  ModelSummary Summary() const;

 private:
  const int64_t version_;
  const ModelConfig config_;
  const std::string config_fingerprint_, version_fingerprint_;
  const std::shared_ptr<const void> owner_;  // temporary files
  std::vector<TensorInfo> inputs_, outputs_;
  std::shared_ptr<ModelCore> core_;
  ModelStatistics before_;  // what the series had counted when this core took them over
};

}  // namespace stoker::host
