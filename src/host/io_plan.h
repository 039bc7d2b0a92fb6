#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <stoker/base/status.h>
#include <stoker/engines/engine.h>
#include <stoker/host/model_config.h>
#include <stoker/tensor/tensor.h>

namespace stoker::host {

struct InputPlan {
  std::string name;
  tensor::DataType type = tensor::DataType::kInvalid;
  tensor::Shape dims;         // as clients send it, without the batch dimension
  tensor::Shape engine_dims;  // as the engine sees it
  bool reshaped = false;
  bool optional = false;
  bool ragged = false;
  int64_t row_bytes = -1;  // of one row when it is always the same; -1 otherwise
};

struct OutputPlan {
  std::string name;
  tensor::DataType type = tensor::DataType::kInvalid;
  tensor::Shape dims;
  tensor::Shape engine_dims;
  bool reshaped = false;
  int scatter_input = -1;  // BATCH_SCATTER_WITH_INPUT_SHAPE: the input whose shape each answer takes
};

/// A tensor that the host makes for each batch and appends to the inputs.
struct BatchInputPlan {
  BatchInputConfig::Kind kind = BatchInputConfig::Kind::kElementCount;
  std::string target;
  tensor::DataType type = tensor::DataType::kInvalid;
  size_t source = 0;  // index of the input that is counted
};

/// Everything that checking, gathering and scattering need to know of a model's tensors. Immutable.
struct IoPlan {
  std::string model;
  int64_t max_batch_size = 0;
  std::vector<InputPlan> inputs;
  std::vector<OutputPlan> outputs;
  std::vector<BatchInputPlan> batch_inputs;
  size_t required_inputs = 0;
  bool any_ragged = false;
  /// Two requests may differ in a way that keeps them out of one batch.
  bool shapes_vary = false;

  bool any_optional() const { return required_inputs != inputs.size(); }
  int FindInput(std::string_view name) const;
  int FindOutput(std::string_view name) const;
};

/// kInvalidArgument when a batch input or output names a tensor that does not exist.
base::Result<IoPlan> MakeIoPlan(const ModelConfig& config);

/// The tensors as the engine shall see them: reshaped dims, batch inputs behind the model's own.
void DescribeForEngine(const IoPlan& plan, engines::ModelSpec* spec);

/// `to` with its wildcards replaced, in order, by the extents of `actual` at the wildcards of `from`.
tensor::Shape MapShape(const tensor::Shape& actual, const tensor::Shape& from, const tensor::Shape& to);

}  // namespace stoker::host
