#include "repository/config_values.h"

#include <set>

#include <stoker/base/str_cat.h>

namespace stoker::host {
namespace {

using base::StrCat;

constexpr int kInstancesMax = 1024;
constexpr int kTensorsMax = 4096;

class ValueReader {
 public:
  explicit ValueReader(const ParsedConfig& parsed) : parsed_(parsed), config_(parsed.config) {}

  base::Result<ModelConfig> Read() {
    values_.name = config_.name();
    values_.backend = config_.backend();
    values_.platform = config_.platform();
    values_.default_model_filename = config_.default_model_filename();
    values_.max_batch_size = config_.max_batch_size();
    Require(config_.max_batch_size() >= 0, "max_batch_size", "must be 0 (no batch dimension) or positive");
    Require(values_.default_model_filename.empty() || IsInnerPath(values_.default_model_filename),
            "default_model_filename", "must be a relative path inside the version folder");
    for (const auto& [key, value] : config_.parameters()) values_.parameters[key] = value.string_value();
    for (const auto& [key, value] : config_.metric_tags()) values_.metric_tags[key] = value;
    ReadVersionPolicy();
    ReadTensors();
    ReadBatchTensors();
    ReadInstances();
    if (config_.has_dynamic_batching()) ReadDynamicBatching();
    for (int i = 0; i < config_.model_warmup_size(); ++i) ReadWarmup(i);
    if (!status_.ok()) return status_;
    return std::move(values_);
  }

 private:
  void Require(bool holds, std::string_view path, std::string_view rule) {
    if (holds || !status_.ok()) return;
    status_ = base::InvalidArgument(StrCat(parsed_.lines.Where(parsed_.file, path), ": ", rule));
  }

  void ReadVersionPolicy() {
    const auto& policy = config_.version_policy();
    if (policy.has_all()) values_.version_policy.kind = VersionPolicyConfig::Kind::kAll;
    if (policy.has_latest()) values_.version_policy.latest = policy.latest().num_versions();
    if (policy.has_specific()) {
      values_.version_policy.kind = VersionPolicyConfig::Kind::kSpecific;
      for (const int64_t version : policy.specific().versions()) {
        Require(version > 0, "version_policy", StrCat("version ", version, " must be positive"));
        values_.version_policy.specific.push_back(version);
      }
    }
  }

  static bool KnownType(int type) { return type > inference::TYPE_INVALID && type <= inference::TYPE_BF16; }

  template <typename Tensor>
  IoConfig ReadTensor(const Tensor& tensor, const std::string& path) {
    IoConfig io;
    io.name = tensor.name();
    Require(!tensor.name().empty(), path, "must have a 'name'");
    Require(KnownType(tensor.data_type()), path, "must have a 'data_type'");
    io.type = static_cast<tensor::DataType>(tensor.data_type());
    Require(tensor.dims_size() <= static_cast<int>(tensor::Shape::kRankMax), path,
            StrCat("may have ", tensor::Shape::kRankMax, " dims"));
    Require(tensor.dims_size() > 0 || config_.max_batch_size() > 0 || tensor.has_reshape(), path,
            "must have 'dims'");
    for (const int64_t dim : tensor.dims()) {
      Require(dim > 0 || dim == -1, path,
              StrCat("has dimension ", dim, "; dims must be positive, or -1 for any"));
      io.dims.Append(dim);
    }
    io.has_reshape = tensor.has_reshape();
    for (const int64_t dim : tensor.reshape().shape()) {
      Require(dim > 0 || dim == -1, path,
              StrCat("has reshape dimension ", dim, "; it must be positive, or -1 for any"));
      io.reshape.Append(dim);
    }
    if (io.has_reshape) CheckReshape(io, path);
    return io;
  }

  /// Between variable dimensions the products must be equal, so that every real shape can be reshaped.
  void CheckReshape(const IoConfig& io, const std::string& path) {
    const auto products = [](const tensor::Shape& shape) {
      std::vector<int64_t> out = {1};
      for (const int64_t dim : shape) {
        if (dim == -1) {
          out.push_back(1);
        } else if (__builtin_mul_overflow(out.back(), dim, &out.back())) {
          out.back() = -1;
        }
      }
      return out;
    };
    Require(products(io.dims) == products(io.reshape), path,
            StrCat("dims ", io.dims.ToString(), " and reshape ", io.reshape.ToString(),
                   " have different numbers of elements"));
  }

  void ReadTensors() {
    Require(config_.input_size() > 0, "input", "a model must have at least one input");
    Require(config_.output_size() > 0, "output", "a model must have at least one output");
    Require(config_.input_size() <= kTensorsMax && config_.output_size() <= kTensorsMax, "input",
            StrCat("at most ", kTensorsMax, " tensors are supported"));
    std::set<std::string> names;
    for (int i = 0; i < config_.input_size() && status_.ok(); ++i) {
      const std::string path = StrCat("input[", i, "]");
      IoConfig io = ReadTensor(config_.input(i), path);
      io.optional = config_.input(i).optional();
      io.allow_ragged_batch = config_.input(i).allow_ragged_batch();
      Require(!io.allow_ragged_batch || config_.max_batch_size() > 0, path,
              "allow_ragged_batch needs max_batch_size > 0");
      const bool image = config_.input(i).format() != inference::ModelInput::FORMAT_NONE;
      Require(!image || io.dims.rank() == 3, path, "a format of NHWC or NCHW needs three dims");
      Require(names.insert(io.name).second, path,
              StrCat("input name ", base::Quoted(io.name), " is used twice"));
      values_.inputs.push_back(std::move(io));
    }
    names.clear();
    for (int i = 0; i < config_.output_size() && status_.ok(); ++i) {
      const std::string path = StrCat("output[", i, "]");
      IoConfig io = ReadTensor(config_.output(i), path);
      io.label_filename = config_.output(i).label_filename();
      Require(io.label_filename.empty() || IsInnerPath(io.label_filename), path,
              "label_filename must be a relative path inside the model's folder");
      Require(names.insert(io.name).second, path,
              StrCat("output name ", base::Quoted(io.name), " is used twice"));
      values_.outputs.push_back(std::move(io));
    }
  }

  bool HasInput(const std::string& name) const {
    for (const auto& input : values_.inputs) {
      if (input.name == name) return true;
    }
    return false;
  }

  void ReadBatchTensors() {
    for (int i = 0; i < config_.batch_input_size(); ++i) {
      const auto& from = config_.batch_input(i);
      const std::string path = StrCat("batch_input[", i, "]");
      Require(from.target_name_size() == 1, path, "must have one 'target_name'");
      Require(from.source_input_size() == 1, path, "must have one 'source_input'");
      Require(from.data_type() == inference::TYPE_INT32 || from.data_type() == inference::TYPE_FP32, path,
              "data_type must be TYPE_INT32 or TYPE_FP32");
      for (const auto& source : from.source_input())
        Require(HasInput(source), path,
                StrCat("source_input ", base::Quoted(source), " is no input of the model"));
      BatchInputConfig to;
      to.kind = static_cast<BatchInputConfig::Kind>(from.kind());
      to.target_names.assign(from.target_name().begin(), from.target_name().end());
      to.type = static_cast<tensor::DataType>(from.data_type());
      to.source_inputs.assign(from.source_input().begin(), from.source_input().end());
      values_.batch_inputs.push_back(std::move(to));
    }
    for (int i = 0; i < config_.batch_output_size(); ++i) {
      const auto& from = config_.batch_output(i);
      const std::string path = StrCat("batch_output[", i, "]");
      Require(from.target_name_size() > 0, path, "must have a 'target_name'");
      Require(from.source_input_size() == 1 && HasInput(from.source_input(0)), path,
              "must have one 'source_input' that is an input of the model");
      values_.batch_outputs.push_back({{from.target_name().begin(), from.target_name().end()},
                                       {from.source_input().begin(), from.source_input().end()}});
    }
  }

  void ReadInstances() {
    int64_t count = 0;
    for (int i = 0; i < config_.instance_group_size(); ++i) {
      Require(config_.instance_group(i).count() >= 0, StrCat("instance_group[", i, "].count"),
              "must be positive");
      count += config_.instance_group(i).count();
    }
    Require(count <= kInstancesMax, "instance_group",
            StrCat(count, " instances, at most ", kInstancesMax, " are supported"));
    values_.instance_count = static_cast<int>(count);
  }

  static QueuePolicyConfig ReadPolicy(const inference::ModelQueuePolicy& from) {
    return {from.timeout_action() == inference::ModelQueuePolicy::DELAY, from.default_timeout_microseconds(),
            from.allow_timeout_override(), from.max_queue_size()};
  }

  void ReadDynamicBatching() {
    const auto& from = config_.dynamic_batching();
    auto& to = values_.dynamic_batching;
    values_.has_dynamic_batching = true;
    for (const int32_t size : from.preferred_batch_size()) {
      Require(size > 0, "dynamic_batching.preferred_batch_size",
              "dynamic batching preferred size must be positive");
      Require(size <= config_.max_batch_size(), "dynamic_batching.preferred_batch_size",
              StrCat("dynamic batching preferred size must be <= max batch size ", config_.max_batch_size(),
                     ", got ", size));
      to.preferred_batch_sizes.push_back(size);
    }
    to.max_queue_delay_us = from.max_queue_delay_microseconds();
    to.preserve_ordering = from.preserve_ordering();
    to.priority_levels = from.priority_levels();
    to.default_priority_level = from.default_priority_level();
    to.default_policy = ReadPolicy(from.default_queue_policy());
    for (const auto& [level, policy] : from.priority_queue_policy())
      to.level_policies[level] = ReadPolicy(policy);
    CheckPriorities(to);
  }

  void CheckPriorities(const DynamicBatchingConfig& batching) {
    const std::string levels = StrCat(batching.priority_levels);
    Require(batching.priority_levels <= 1'000'000, "dynamic_batching.priority_levels",
            "may be a million at most");
    Require(batching.priority_levels == 0 || (batching.default_priority_level >= 1 &&
                                              batching.default_priority_level <= batching.priority_levels),
            "dynamic_batching.default_priority_level",
            StrCat("default priority level must be in range [1, ", levels, "]"));
    bool delays = batching.default_policy.delay_on_timeout;
    for (const auto& [level, policy] : batching.level_policies) {
      Require(level >= 1 && level <= batching.priority_levels, "dynamic_batching.priority_queue_policy",
              StrCat("level ", level, " is not in range [1, ", levels, "]"));
      delays = delays || policy.delay_on_timeout;
    }
    Require(!batching.preserve_ordering || batching.priority_levels <= 1,
            "dynamic_batching.preserve_ordering",
            "Only one priority level is allowed when 'preserve_ordering' is true");
    Require(!batching.preserve_ordering || !delays, "dynamic_batching.preserve_ordering",
            "Queue policy can not have DELAY as timeout action when 'preserve_ordering' is true");
  }

  void ReadWarmup(int index) {
    const auto& from = config_.model_warmup(index);
    const std::string path = StrCat("model_warmup[", index, "]");
    Require(from.batch_size() <= static_cast<uint32_t>(std::max(1, config_.max_batch_size())), path,
            StrCat("batch_size ", from.batch_size(), " is larger than max_batch_size ",
                   config_.max_batch_size()));
    WarmupConfig to;
    to.name = from.name();
    to.batch_size = from.batch_size();
    to.count = from.count();
    for (const auto& [name, input] : from.inputs()) {
      WarmupConfig::Input value;
      value.name = name;
      value.type = static_cast<tensor::DataType>(input.data_type());
      Require(KnownType(input.data_type()), path,
              StrCat("input ", base::Quoted(name), " must have a 'data_type'"));
      for (const int64_t dim : input.dims()) {
        Require(dim >= 0, path,
                StrCat("input ", base::Quoted(name), " has dimension ", dim, "; warm-up needs real sizes"));
        value.dims.Append(dim);
      }
      Require(input.input_data_type_case() != inference::ModelWarmup::Input::INPUT_DATA_TYPE_NOT_SET, path,
              StrCat("input ", base::Quoted(name), " must have zero_data, random_data or input_data_file"));
      if (input.has_random_data()) value.data = WarmupConfig::Input::Data::kRandom;
      if (input.has_input_data_file()) {
        value.data = WarmupConfig::Input::Data::kFile;
        value.file = input.input_data_file();
        Require(IsInnerPath(value.file), path,
                "input_data_file must be a relative path inside the model's warmup folder");
      }
      to.inputs.push_back(std::move(value));
    }
    values_.warmups.push_back(std::move(to));
  }

  const ParsedConfig& parsed_;
  const inference::ModelConfig& config_;
  ModelConfig values_;
  base::Status status_;
};

}  // namespace

base::Result<ModelConfig> ToValues(const ParsedConfig& parsed) { return ValueReader(parsed).Read(); }

bool IsInnerPath(std::string_view path) {
  if (path.empty() || path.front() == '/' || path.find('\0') != std::string_view::npos) return false;
  while (true) {
    const size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    if (part.empty() || part == "." || part == "..") return false;
    if (slash == std::string_view::npos) return true;
    path.remove_prefix(slash + 1);
  }
}

}  // namespace stoker::host
