#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <stoker/host/request.h>
#include <stoker/tensor/tensor.h>

namespace stoker::host {

/// One input or output as clients see it.
struct TensorInfo {
  std::string name;
  tensor::DataType type = tensor::DataType::kInvalid;
  tensor::Shape dims;            // from the configuration, without the batch dimension
  tensor::Shape metadata_shape;  // as metadata shows it: with a leading -1 when there is a batch dimension
  bool optional = false;
  bool ragged = false;
  std::vector<std::string> labels;  // of an output with a label file, one a class
};

/// One loaded version of a model, as the doors see it. Immutable and thread-safe.
class Model {
 public:
  virtual ~Model() = default;
  virtual const std::string& name() const = 0;
  virtual int64_t version() const = 0;
  virtual const std::string& platform() const = 0;  // as metadata shows it (falls back to the backend)
  virtual int64_t max_batch_size() const = 0;
  virtual std::span<const TensorInfo> inputs() const = 0;
  virtual std::span<const TensorInfo> outputs() const = 0;
  /// The whole ModelConfig with every default as JSON (protocol field names, 64-bit numbers as
  /// numbers), and as a serialised inference.ModelConfig message.
  virtual const std::string& config_json() const = 0;
  virtual const std::string& config_message() const = 0;
  /// Requests run to completion, quickly, on the thread that submits them (nothing to cancel). May change.
  virtual bool runs_inline() const = 0;

  /// Index of that name, or -1.
  int FindInput(std::string_view name) const;
  int FindOutput(std::string_view name) const;
};

}  // namespace stoker::host
