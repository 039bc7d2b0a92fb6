#include "io_plan.h"

#include <stoker/base/str_cat.h>

namespace stoker::host {
namespace {

using base::StrCat;

int64_t RowBytes(tensor::DataType type, const tensor::Shape& dims) {
  const size_t size = tensor::ElementSize(type);
  if (size == 0 || dims.has_wildcard()) return -1;
  const auto count = dims.ElementCount(size);
  return count.ok() ? *count * static_cast<int64_t>(size) : -1;
}

template <typename Plans>
int Find(const Plans& plans, std::string_view name) {
  for (size_t i = 0; i < plans.size(); ++i) {
    if (plans[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

base::Result<size_t> SourceOf(const IoPlan& plan, const std::vector<std::string>& sources,
                              std::string_view field) {
  if (sources.size() != 1) {
    return base::InvalidArgument(StrCat("model '", plan.model, "': ", field, " has ", sources.size(),
                                        " source_input, wanted exactly one"));
  }
  const int index = plan.FindInput(sources[0]);
  if (index < 0) {
    return base::InvalidArgument(StrCat("model '", plan.model, "': ", field, " names source_input '",
                                        sources[0], "', which is no input of the model"));
  }
  return static_cast<size_t>(index);
}

base::Status AddBatchInputs(const ModelConfig& config, IoPlan* plan) {
  for (const BatchInputConfig& batch_input : config.batch_inputs) {
    STOKER_ASSIGN_OR_RETURN(const size_t source, SourceOf(*plan, batch_input.source_inputs, "batch_input"));
    for (const std::string& target : batch_input.target_names) {
      plan->batch_inputs.push_back({batch_input.kind, target, batch_input.type, source});
    }
  }
  for (const BatchOutputConfig& batch_output : config.batch_outputs) {
    STOKER_ASSIGN_OR_RETURN(const size_t source, SourceOf(*plan, batch_output.source_inputs, "batch_output"));
    for (const std::string& target : batch_output.target_names) {
      const int index = plan->FindOutput(target);
      if (index < 0) {
        return base::InvalidArgument(StrCat("model '", plan->model, "': batch_output names target '", target,
                                            "', which is no output of the model"));
      }
      plan->outputs[static_cast<size_t>(index)].scatter_input = static_cast<int>(source);
    }
  }
  return base::OkStatus();
}

}  // namespace

int IoPlan::FindInput(std::string_view name) const { return Find(inputs, name); }
int IoPlan::FindOutput(std::string_view name) const { return Find(outputs, name); }

base::Result<IoPlan> MakeIoPlan(const ModelConfig& config) {
  IoPlan plan;
  plan.model = config.name;
  plan.max_batch_size = config.max_batch_size;
  for (const IoConfig& io : config.inputs) {
    InputPlan input{.name = io.name,
                    .type = io.type,
                    .dims = io.dims,
                    .engine_dims = io.has_reshape ? io.reshape : io.dims,
                    .reshaped = io.has_reshape,
                    .optional = io.optional,
                    .ragged = io.allow_ragged_batch};
    input.row_bytes = RowBytes(io.type, io.dims);
    plan.required_inputs += io.optional ? 0 : 1;
    plan.any_ragged |= input.ragged;
    plan.shapes_vary |= io.optional || (!input.ragged && io.dims.has_wildcard());
    plan.inputs.push_back(std::move(input));
  }
  for (const IoConfig& io : config.outputs) {
    plan.outputs.push_back({.name = io.name,
                            .type = io.type,
                            .dims = io.dims,
                            .engine_dims = io.has_reshape ? io.reshape : io.dims,
                            .reshaped = io.has_reshape});
  }
  STOKER_RETURN_IF_ERROR(AddBatchInputs(config, &plan));
  return plan;
}

void DescribeForEngine(const IoPlan& plan, engines::ModelSpec* spec) {
  for (const InputPlan& input : plan.inputs) {
    spec->inputs.push_back({input.name, input.type, input.engine_dims, input.optional, input.ragged});
  }
  for (const BatchInputPlan& extra : plan.batch_inputs) {
    const auto rank = static_cast<int64_t>(plan.inputs[extra.source].dims.rank());
    const bool per_item = extra.kind == BatchInputConfig::Kind::kItemShape;
    spec->inputs.push_back({.name = extra.target,
                            .type = extra.type,
                            .dims = per_item ? tensor::Shape{rank} : tensor::Shape{-1},
                            .ragged = !per_item,
                            .from_host = true});
  }
  for (const OutputPlan& output : plan.outputs) {
    spec->outputs.push_back({.name = output.name, .type = output.type, .dims = output.engine_dims});
  }
}

tensor::Shape MapShape(const tensor::Shape& actual, const tensor::Shape& from, const tensor::Shape& to) {
  tensor::Shape out;
  size_t next = 0;
  for (const int64_t dim : to.dims()) {
    if (dim >= 0) {
      out.Append(dim);
      continue;
    }
    while (next < from.rank() && from[next] >= 0) ++next;
    out.Append(next < actual.rank() && next < from.rank() ? actual[next] : 1);
    ++next;
  }
  return out;
}

}  // namespace stoker::host
