#include "repository/config_support.h"

#include <algorithm>

#include <stoker/base/str_cat.h>

#include "batching_config.h"

namespace stoker::host {
namespace {

using base::StrCat;

class SupportCheck {
 public:
  SupportCheck(const ParsedConfig& parsed, std::vector<std::string>* warnings)
      : parsed_(parsed), config_(parsed.config), warnings_(warnings) {}

  base::Status Run() {
    Scheduling();
    Tensors();
    Groups();
    Whole();
    Hints();
    return status_;
  }

 private:
  void Refuse(bool present, std::string_view path, std::string_view why) {
    if (!present || !status_.ok()) return;
    status_ = base::Unimplemented(StrCat(parsed_.lines.Where(parsed_.file, path), ": ", why));
  }

  void Warn(bool present, std::string_view path, std::string_view why) {
    if (present) warnings_->push_back(StrCat(parsed_.lines.Where(parsed_.file, path), ": ", why));
  }

  void Scheduling() {
    Refuse(config_.has_sequence_batching(), "sequence_batching",
           "sequence batching is not supported by this server");
    Refuse(config_.has_ensemble_scheduling() || config_.platform() == "ensemble", "ensemble_scheduling",
           "ensembles are not supported by this server");
    Refuse(config_.response_cache().enable(), "response_cache",
           "the response cache is not supported by this server");
    Refuse(config_.model_transaction_policy().decoupled(), "model_transaction_policy",
           "decoupled models are not supported by this server");
  }

  void Tensors() {
    for (int i = 0; i < config_.input_size(); ++i) {
      Refuse(config_.input(i).is_shape_tensor(), StrCat("input[", i, "].is_shape_tensor"),
             "shape tensors are not supported by this server");
      Refuse(config_.input(i).is_non_linear_format_io(), StrCat("input[", i, "].is_non_linear_format_io"),
             "non-linear tensor formats are not supported by this server");
    }
    for (int i = 0; i < config_.output_size(); ++i) {
      Refuse(config_.output(i).is_shape_tensor(), StrCat("output[", i, "].is_shape_tensor"),
             "shape tensors are not supported by this server");
      Refuse(config_.output(i).is_non_linear_format_io(), StrCat("output[", i, "].is_non_linear_format_io"),
             "non-linear tensor formats are not supported by this server");
    }
  }

  void Groups() {
    for (int i = 0; i < config_.instance_group_size(); ++i) {
      const auto& group = config_.instance_group(i);
      const std::string path = StrCat("instance_group[", i, "]");
      Refuse(group.rate_limiter().resources_size() > 0, path + ".rate_limiter",
             "the rate limiter is not supported by this server");
      Refuse(group.passive(), path + ".passive", "passive instances are not supported by this server");
      Refuse(group.secondary_devices_size() > 0, path + ".secondary_devices",
             "secondary devices are not supported by this server");
      Refuse(group.profile_size() > 0, path + ".profile",
             "TensorRT profiles are not supported by this server");
      Warn(group.rate_limiter().priority() > 0, path + ".rate_limiter",
           "without resources the priority has no effect");
      Refuse(
          group.kind() == inference::ModelInstanceGroup::KIND_GPU, path,
          "has kind KIND_GPU but no GPUs are available: this server's engines run on the CPU; use KIND_CPU "
          "or KIND_AUTO");
      const bool by_model = group.kind() == inference::ModelInstanceGroup::KIND_MODEL;
      Refuse(group.gpus_size() > 0 && !by_model, path,
             "has kind KIND_CPU but specifies one or more GPUs; leave 'gpus' out");
      Warn(group.gpus_size() > 0 && by_model, path, "GPUs are not used by this server's engines");
      Warn(!group.host_policy().empty(), path + ".host_policy", "host policies have no effect here");
    }
  }

  void Whole() {
    Refuse(config_.model_repository_agents().agents_size() > 0, "model_repository_agents",
           "repository agents are not supported by this server");
    Refuse(config_.model_operations().op_library_filename_size() > 0, "model_operations",
           "custom operation libraries are not supported by this server");
    Refuse(config_.cc_model_filenames_size() > 0, "cc_model_filenames",
           "files by compute capability are not supported by this server");
    const std::string custom = "TRITON_BATCH_STRATEGY_PATH";
    Refuse(config_.parameters().contains(custom), "parameters",
           "custom batching libraries (TRITON_BATCH_STRATEGY_PATH) are not supported by this server");
  }

  void Hints() {
    const auto& optimization = config_.optimization();
    Warn(optimization.has_graph(), "optimization.graph", "graph levels have no effect here");
    Warn(optimization.priority() != inference::ModelOptimizationPolicy::PRIORITY_DEFAULT,
         "optimization.priority", "scheduling priorities between models have no effect here");
    Warn(optimization.has_cuda(), "optimization.cuda", "CUDA settings have no effect here");
    Warn(optimization.has_execution_accelerators(), "optimization.execution_accelerators",
         "execution accelerators have no effect here: the engine chooses");
    Warn(optimization.has_input_pinned_memory(), "optimization.input_pinned_memory",
         "pinned memory has no effect here");
    Warn(optimization.has_output_pinned_memory(), "optimization.output_pinned_memory",
         "pinned memory has no effect here");
    Warn(optimization.gather_kernel_buffer_threshold() > 0, "optimization.gather_kernel_buffer_threshold",
         "gather kernels have no effect here");
    Warn(optimization.eager_batching(), "optimization.eager_batching", "eager batching has no effect here");
    Warn(config_.has_model_metrics(), "model_metrics",
         "histogram buckets of single models have no effect here");
    Warn(!config_.runtime().empty(), "runtime",
         "runtimes have no effect here: the engine is chosen by backend and platform");
  }

  const ParsedConfig& parsed_;
  const inference::ModelConfig& config_;
  std::vector<std::string>* warnings_;
  base::Status status_;
};

}  // namespace

base::Status CheckSupported(const ParsedConfig& parsed, std::vector<std::string>* warnings) {
  return SupportCheck(parsed, warnings).Run();
}

base::Status CheckParameters(const ParsedConfig& parsed, std::span<const std::string_view> engine_parameters,
                             std::vector<std::string>* warnings) {
  const std::string where = parsed.lines.Where(parsed.file, "parameters");
  const auto batching = BatchingParameters();
  std::string own;
  for (const auto names : {batching, engine_parameters}) {
    for (const std::string_view name : names) {
      if (name.starts_with("stoker.")) base::StrAppend(&own, own.empty() ? "" : ", ", name);
    }
  }
  for (const auto& [key, value] : parsed.config.parameters()) {
    if (std::ranges::find(engine_parameters, key) != engine_parameters.end()) continue;
    if (std::ranges::find(batching, key) != batching.end()) continue;
    if (key.starts_with("stoker.")) {
      return base::InvalidArgument(
          StrCat(where, ": ", base::Quoted(key), " is unknown; this model can have ", own));
    }
    warnings->push_back(StrCat(where, ": ", base::Quoted(key), " has no effect here"));
  }
  return base::OkStatus();
}

}  // namespace stoker::host
