#include "repository/config_complete.h"

#include <filesystem>

#include <stoker/base/str_cat.h>

namespace stoker::host {
namespace {

using base::StrCat;
using engines::ModelDescription;
using engines::TensorSpec;
using inference::ModelConfig;

struct PlatformRow {
  std::string_view platform, backend;
};

constexpr PlatformRow kPlatforms[] = {
    {"onnxruntime_onnx", "onnxruntime"},   {"tensorflow_savedmodel", "tensorflow"},
    {"tensorflow_graphdef", "tensorflow"}, {"pytorch_libtorch", "pytorch"},
    {"tensorrt_plan", "tensorrt"},
};

std::string_view BackendOfPlatform(std::string_view platform) {
  for (const auto& row : kPlatforms) {
    if (row.platform == platform) return row.backend;
  }
  return "";
}

std::string_view PlatformOf(std::string_view backend, std::string_view filename) {
  if (backend == "onnxruntime") return "onnxruntime_onnx";
  if (backend == "tensorflow")
    return filename.ends_with(".graphdef") ? "tensorflow_graphdef" : "tensorflow_savedmodel";
  return "";
}

/// The first default file name of any engine that exists in the version folder.
bool FindByFile(const CompletionContext& context, EngineSet* engines, ModelConfig* config) {
  if (context.version_path.empty()) return false;
  for (engines::Engine* engine : engines->all()) {
    for (const std::string_view filename : engine->default_filenames()) {
      std::error_code error;
      if (!std::filesystem::exists(std::filesystem::path(context.version_path) / filename, error)) continue;
      // What the configuration says stands: an ONNX file may be meant for another backend than its usual one.
      if (config->backend().empty()) config->set_backend(std::string(engine->backend_for(filename)));
      if (config->default_model_filename().empty()) config->set_default_model_filename(std::string(filename));
      return true;
    }
  }
  return false;
}

bool FindByName(EngineSet* engines, ModelConfig* config) {
  for (engines::Engine* engine : engines->all()) {
    const std::string_view backend = engine->backend_for(config->default_model_filename());
    if (backend.empty()) continue;
    config->set_backend(std::string(backend));
    return true;
  }
  return false;
}

/// A listed tensor as the engine shall see it: what engines without model files describe a model by.
template <typename Tensor>
TensorSpec ListedTensor(const Tensor& tensor) {
  TensorSpec spec;
  spec.name = tensor.name();
  spec.type = static_cast<tensor::DataType>(tensor.data_type());
  for (const int64_t dim : tensor.has_reshape() ? tensor.reshape().shape() : tensor.dims())
    spec.dims.Append(dim);
  return spec;
}

engines::ModelSpec SpecForDescription(const CompletionContext& context, const ModelConfig& config) {
  engines::ModelSpec spec;
  spec.name = context.model;
  spec.version_path = context.version_path;
  spec.filename = config.default_model_filename();
  spec.backend = config.backend();
  spec.platform = config.platform();
  spec.max_batch_size = config.max_batch_size();
  for (const auto& [key, value] : config.parameters()) spec.parameters[key] = value.string_value();
  for (const auto& input : config.input()) {
    spec.inputs.push_back(ListedTensor(input));
    spec.inputs.back().optional = input.optional();
    spec.inputs.back().ragged = input.allow_ragged_batch();
  }
  for (const auto& output : config.output()) spec.outputs.push_back(ListedTensor(output));
  return spec;
}

/// Shape of the model file without its batch dimension.
tensor::Shape Inner(const TensorSpec& spec, bool batched) { return batched ? spec.dims.Tail(1) : spec.dims; }

/// Configured dimensions agree with the file's when ranks are equal and each is equal or open on a side.
bool Agree(const tensor::Shape& file, const tensor::Shape& configured) {
  if (file.rank() != configured.rank()) return false;
  for (size_t i = 0; i < file.rank(); ++i) {
    if (file[i] != configured[i] && file[i] != -1 && configured[i] != -1) return false;
  }
  return true;
}

const TensorSpec* FindSpec(const std::vector<TensorSpec>& specs, const std::string& name) {
  for (const auto& spec : specs) {
    if (spec.name == name) return &spec;
  }
  return nullptr;
}

std::string Names(const std::vector<TensorSpec>& specs) {
  std::string out;
  for (const auto& spec : specs) base::StrAppend(&out, out.empty() ? "" : ", ", spec.name);
  return out;
}

struct TensorContext {
  std::string_view kind;  // "input" or "output"
  const ParsedConfig* parsed;
  bool batched;
};

template <typename Tensor>
base::Status CompleteOne(const TensorContext& context, const std::vector<TensorSpec>& specs, int index,
                         Tensor* tensor) {
  const std::string where =
      context.parsed->lines.Where(context.parsed->file, StrCat(context.kind, "[", index, "]"));
  const TensorSpec* spec = FindSpec(specs, tensor->name());
  if (spec == nullptr) {
    return base::InvalidArgument(StrCat(where, ": the model file has no ", context.kind, " ",
                                        base::Quoted(tensor->name()), ", it has ", Names(specs)));
  }
  const auto file_type = static_cast<inference::DataType>(spec->type);
  if (tensor->data_type() == inference::TYPE_INVALID) tensor->set_data_type(file_type);
  if (tensor->data_type() != file_type) {
    return base::InvalidArgument(StrCat(where, ": data_type is ",
                                        inference::DataType_Name(tensor->data_type()),
                                        " but the model file has ", inference::DataType_Name(file_type)));
  }
  const tensor::Shape inner = Inner(*spec, context.batched);
  if (tensor->dims_size() == 0) {
    for (const int64_t dim : inner) tensor->add_dims(dim);
    return base::OkStatus();
  }
  tensor::Shape configured;
  for (const int64_t dim : tensor->has_reshape() ? tensor->reshape().shape() : tensor->dims())
    configured.Append(dim);
  if (Agree(inner, configured)) return base::OkStatus();
  return base::InvalidArgument(StrCat(
      where, ": dims ", configured.ToString(), " do not agree with the model file's shape ",
      spec->dims.ToString(),
      context.batched ? "; with max_batch_size > 0 the batch dimension (the first) must be left out of dims"
                      : "; with max_batch_size 0 dims must hold every dimension, the first too"));
}

template <typename Tensor>
void AddFrom(const TensorSpec& spec, bool batched, Tensor* tensor) {
  tensor->set_name(spec.name);
  tensor->set_data_type(static_cast<inference::DataType>(spec.type));
  const tensor::Shape inner = Inner(spec, batched);
  for (const int64_t dim : inner) tensor->add_dims(dim);
  if (inner.rank() == 0) {  // a scalar: clients give it as one element, since dims cannot be empty
    tensor->add_dims(1);
    tensor->mutable_reshape();
  }
}

/// A configuration that says nothing of tensors or batching gets the batching that the file allows.
void CompleteBatching(const CompletionContext& context, const ModelDescription& description,
                      ModelConfig* config) {
  const bool silent =
      config->input_size() == 0 && config->output_size() == 0 && config->max_batch_size() == 0;
  if (!silent || !description.batchable || description.batch_hint != 0 || context.default_max_batch_size <= 0)
    return;
  config->set_max_batch_size(static_cast<int32_t>(context.default_max_batch_size));
  if (config->scheduling_choice_case() == ModelConfig::SCHEDULING_CHOICE_NOT_SET &&
      context.default_max_batch_size > 1) {
    config->mutable_dynamic_batching();
  }
}

template <typename Tensors>
base::Status CheckNoScalar(const ParsedConfig& parsed, std::string_view field, const Tensors& tensors) {
  for (int i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].has_reshape() || tensors[i].reshape().shape_size() > 0) continue;
    return base::InvalidArgument(
        StrCat(parsed.lines.Where(parsed.file, StrCat(field, "[", i, "]")),
               ": cannot have an empty reshape without batching: scalars go to model files that have "
               "scalars, this model has none; leave 'reshape' out"));
  }
  return base::OkStatus();
}

base::Status CheckNoScalars(const ParsedConfig& parsed, const ModelConfig& config) {
  if (config.max_batch_size() > 0) return base::OkStatus();
  STOKER_RETURN_IF_ERROR(CheckNoScalar(parsed, "input", config.input()));
  return CheckNoScalar(parsed, "output", config.output());
}

}  // namespace

base::Result<engines::Engine*> CompleteEngine(const CompletionContext& context, EngineSet* engines,
                                              ModelConfig* config) {
  if (config->backend().empty()) config->set_backend(std::string(BackendOfPlatform(config->platform())));
  if (config->backend().empty() && config->platform().empty() && !context.disabled) {
    const bool found = config->default_model_filename().empty() ? FindByFile(context, engines, config)
                                                                : FindByName(engines, config);
    if (!found) {
      return base::NotFound(
          StrCat("no backend, platform or known model file for model '", context.model,
                 "': set 'backend' in its config.pbtxt, or put one of ",
                 "model.onnx, model.xml, model.savedmodel or model.tflite into its version folder"));
    }
  }
  STOKER_ASSIGN_OR_RETURN(engines::Engine * engine,
                          engines->ForConfig(config->backend(), config->platform()));
  if (config->default_model_filename().empty()) FindByFile(context, engines, config);
  if (config->platform().empty()) {
    config->set_platform(std::string(PlatformOf(config->backend(), config->default_model_filename())));
  }
  return engine;
}

base::Status CompleteTensors(const CompletionContext& context, engines::Engine* engine,
                             const ParsedConfig& parsed, ModelConfig* config) {
  if (context.version_path.empty()) return base::OkStatus();
  STOKER_ASSIGN_OR_RETURN(const ModelDescription description,
                          engine->Describe(SpecForDescription(context, *config)));
  const bool takes_any = description.inputs.empty() && description.outputs.empty();
  if (takes_any || engine->default_filenames().empty())
    STOKER_RETURN_IF_ERROR(CheckNoScalars(parsed, *config));
  if (takes_any) return base::OkStatus();
  if (!context.disabled) CompleteBatching(context, description, config);
  const bool batched = config->max_batch_size() > 0;
  if (batched && !description.batchable) {
    return base::InvalidArgument(
        StrCat(parsed.lines.Where(parsed.file, "max_batch_size"), ": ", config->max_batch_size(),
               " asks for batching, but the first dimension of the model file's tensors is no ",
               "batch dimension; set max_batch_size to 0 and list every dimension in dims"));
  }
  if (config->input_size() == 0 && !context.disabled) {
    for (const auto& spec : description.inputs) AddFrom(spec, batched, config->add_input());
  }
  if (config->output_size() == 0 && !context.disabled) {
    for (const auto& spec : description.outputs) AddFrom(spec, batched, config->add_output());
  }
  for (int i = 0; i < config->input_size(); ++i) {
    STOKER_RETURN_IF_ERROR(
        CompleteOne({"input", &parsed, batched}, description.inputs, i, config->mutable_input(i)));
  }
  for (int i = 0; i < config->output_size(); ++i) {
    STOKER_RETURN_IF_ERROR(
        CompleteOne({"output", &parsed, batched}, description.outputs, i, config->mutable_output(i)));
  }
  for (const auto& spec : description.inputs) {
    bool listed = spec.optional;
    for (const auto& input : config->input()) listed = listed || input.name() == spec.name;
    if (!listed) {
      return base::InvalidArgument(StrCat(parsed.lines.Where(parsed.file, "input"),
                                          ": the model file's input ", base::Quoted(spec.name),
                                          " is not listed; expected ", description.inputs.size(), " inputs"));
    }
  }
  return base::OkStatus();
}

void FillDefaults(ModelConfig* config) {
  if (config->version_policy().policy_choice_case() == inference::ModelVersionPolicy::POLICY_CHOICE_NOT_SET) {
    config->mutable_version_policy()->mutable_latest()->set_num_versions(1);
  }
  auto* optimization = config->mutable_optimization();
  if (!optimization->has_input_pinned_memory()) optimization->mutable_input_pinned_memory()->set_enable(true);
  if (!optimization->has_output_pinned_memory())
    optimization->mutable_output_pinned_memory()->set_enable(true);
  if (config->has_dynamic_batching() && config->dynamic_batching().preferred_batch_size_size() == 0 &&
      config->max_batch_size() > 0) {
    config->mutable_dynamic_batching()->add_preferred_batch_size(config->max_batch_size());
  }
  if (config->instance_group_size() == 0) {
    auto* group = config->add_instance_group();
    group->set_name(config->name());
    group->set_count(1);
  }
  for (int i = 0; i < config->instance_group_size(); ++i) {
    auto* group = config->mutable_instance_group(i);
    if (group->name().empty()) group->set_name(StrCat(config->name(), "_", i));
    if (group->kind() == inference::ModelInstanceGroup::KIND_AUTO)
      group->set_kind(inference::ModelInstanceGroup::KIND_CPU);
    if (group->count() == 0) group->set_count(1);
  }
}

}  // namespace stoker::host
