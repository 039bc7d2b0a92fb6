#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <stoker/base/str_cat.h>
#include <stoker/engines/engines.h>

#include "description_internal.h"
#include "parameters_internal.h"
#include "sleep_internal.h"

namespace stoker::engines {
namespace {

using internal::IntParameter;
using internal::ModelLabel;

constexpr std::string_view kBackend = "identity";
constexpr std::string_view kInputPrefix = "INPUT";
constexpr std::string_view kOutputPrefix = "OUTPUT";
constexpr int64_t kDelayMaxMs = 24 * 3600 * 1000;
constexpr std::array<std::string_view, 3> kParameters = {"execute_delay_ms", "instance_wise_delay_multiplier",
                                                         "creation_delay_sec"};

struct IdentityPlan {
  std::vector<size_t> input_of_output;   // by output index
  std::vector<std::string> input_names;  // by output index, for messages
  int64_t delay_ns = 0;
  std::function<void(int64_t)> sleep_ns;
};

class IdentityInstance final : public EngineInstance {
 public:
  explicit IdentityInstance(const IdentityPlan& plan) : plan_(plan) {}

  base::Status Run(const Batch& batch, OutputSink* outputs) override {
    if (plan_.delay_ns > 0) plan_.sleep_ns(plan_.delay_ns);
    for (size_t i = 0; i < plan_.input_of_output.size(); ++i) {
      if (!outputs->Wanted(i)) continue;
      const tensor::Tensor& input = batch.inputs[plan_.input_of_output[i]];
      if (input.type == tensor::DataType::kInvalid) {
        return base::Internal(
            base::StrCat("failed to get input '", plan_.input_names[i],
                         "': the request leaves it out but asks for the output made of it"));
      }
      outputs->Adopt(i, input);
    }
    return base::OkStatus();
  }

 private:
  const IdentityPlan& plan_;
};

class IdentityModel final : public EngineModel {
 public:
  explicit IdentityModel(IdentityPlan plan) : plan_(std::move(plan)) {}
  base::Result<std::unique_ptr<EngineInstance>> NewInstance(int) override {
    return std::unique_ptr<EngineInstance>(new IdentityInstance(plan_));
  }
  InstanceTraits traits() const override { return {.run_inline = plan_.delay_ns == 0, .request_wise = true}; }
  std::string choices() const override {
    return plan_.delay_ns == 0 ? "no copy" : base::StrCat("no copy, ", plan_.delay_ns / 1000000, " ms delay");
  }

 private:
  const IdentityPlan plan_;
};

base::Status Refuse(const ModelSpec& spec, std::string_view what) {
  return base::InvalidArgument(
      base::StrCat(ModelLabel(spec), ": ", what, " (backend 'identity', config.pbtxt)"));
}

// Finds the input that feeds output `output` and checks that type and dims are the same.
base::Result<size_t> InputFor(const ModelSpec& spec, const TensorSpec& output) {
  const std::string_view name = output.name;
  if (!name.starts_with(kOutputPrefix)) {
    return Refuse(spec,
                  base::StrCat("expected output name to follow OUTPUT<index> pattern, got '", name, "'"));
  }
  const std::string wanted = base::StrCat(kInputPrefix, name.substr(kOutputPrefix.size()));
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    const TensorSpec& input = spec.inputs[i];
    if (input.from_host || input.name != wanted) continue;
    if (input.type != output.type) {
      return Refuse(spec,
                    base::StrCat("expected input and output datatype to match, got ", ConfigName(input.type),
                                 " for '", wanted, "' and ", ConfigName(output.type), " for '", name, "'"));
    }
    if (!(input.dims == output.dims)) {
      return Refuse(spec,
                    base::StrCat("expected input and output shape to match, got ", input.dims.ToString(),
                                 " for '", wanted, "' and ", output.dims.ToString(), " for '", name, "'"));
    }
    return i;
  }
  return Refuse(spec, base::StrCat("expected input and output indices to match, got output '", name,
                                   "' without an input '", wanted, "'"));
}

class IdentityEngine final : public Engine {
 public:
  explicit IdentityEngine(const EngineOptions& options) : sleep_ns_(internal::SleepFunction(options)) {}

  std::string_view name() const override { return kBackend; }
  bool Serves(std::string_view backend, std::string_view) const override { return backend == kBackend; }
  std::span<const std::string_view> default_filenames() const override { return {}; }
  std::string_view backend_for(std::string_view) const override { return ""; }
  std::span<const std::string_view> parameters() const override { return kParameters; }

  base::Result<ModelDescription> Describe(const ModelSpec& spec) override {
    return internal::DescribeFromSpec(spec);
  }

  base::Result<std::unique_ptr<EngineModel>> Load(const ModelSpec& spec) override {
    const auto given = spec.inputs.size() - static_cast<size_t>(std::ranges::count_if(
                                                spec.inputs, [](const auto& i) { return i.from_host; }));
    if (given != spec.outputs.size()) {
      return Refuse(spec, base::StrCat("model configuration must have equal input/output pairs, got ", given,
                                       " inputs and ", spec.outputs.size(), " outputs"));
    }
    for (const TensorSpec& input : spec.inputs) {
      if (input.from_host || input.name.starts_with(kInputPrefix)) continue;
      return Refuse(
          spec, base::StrCat("expected input name to follow INPUT<index> pattern, got '", input.name, "'"));
    }
    IdentityPlan plan;
    plan.sleep_ns = sleep_ns_;
    for (const TensorSpec& output : spec.outputs) {
      STOKER_ASSIGN_OR_RETURN(const size_t input, InputFor(spec, output));
      plan.input_of_output.push_back(input);
      plan.input_names.push_back(spec.inputs[input].name);
    }
    STOKER_ASSIGN_OR_RETURN(const auto delay_ms,
                            IntParameter(spec, "execute_delay_ms", {.max = kDelayMaxMs}));
    // Triton multiplies by the device's number, which is 0 and means "once" for every CPU instance.
    STOKER_ASSIGN_OR_RETURN(const auto multiplier, IntParameter(spec, "instance_wise_delay_multiplier", {}));
    STOKER_ASSIGN_OR_RETURN(const auto creation_s,
                            IntParameter(spec, "creation_delay_sec", {.max = kDelayMaxMs / 1000}));
    static_cast<void>(multiplier);
    plan.delay_ns = delay_ms.value_or(0) * 1000000;
    if (creation_s.value_or(0) > 0) sleep_ns_(*creation_s * 1000000000);
    return std::unique_ptr<EngineModel>(new IdentityModel(std::move(plan)));
  }

 private:
  const std::function<void(int64_t)> sleep_ns_;
};

}  // namespace

std::unique_ptr<Engine> MakeIdentityEngine(const EngineOptions& options) {
  return std::make_unique<IdentityEngine>(options);
}

}  // namespace stoker::engines
