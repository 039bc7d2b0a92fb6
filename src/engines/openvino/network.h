#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include <openvino/core/model.hpp>
#include <openvino/runtime/core.hpp>

#include <stoker/base/status.h>
#include <stoker/engines/engine.h>

#include "openvino/settings.h"

namespace stoker::engines::internal {

/// One input or output of a network as it is run, in the order of the ModelSpec.
struct Port {
  std::string name;
  size_t index = 0;  // into the network's own inputs or outputs
  tensor::DataType type = tensor::DataType::kInvalid;
  ov::element::Type element;
  tensor::Shape dims;        // without the batch dimension; -1: any
  bool shape_known = false;  // outputs: the network surely gives `dims` (and the rows put in)
};

/// A model file that was read, checked against its configuration and shaped for it.
struct Network {
  std::string file;
  std::shared_ptr<ov::Model> model;
  std::vector<Port> inputs, outputs;
  bool batched = false;  // the first dimension of every port counts rows
  int64_t rows_max = 1;
  int64_t file_rows = 0;      // batch that the file is fixed to; 0: none
  bool dynamic_rows = false;  // `model` takes any number of rows from 1 to rows_max
  std::string why_fixed;      // why it does not, although batches were asked for
  size_t weight_bytes = 0;
};

/// Path of the model's file: the configured name or the first default name that is there.
base::Result<std::string> FindModelFile(const ModelSpec& spec);

/// Reads a file with whatever frontend takes it. Nothing is compiled.
base::Result<std::shared_ptr<ov::Model>> ReadNetwork(ov::Core& core, const ModelSpec& spec,
                                                     const std::string& file);

base::Result<ModelDescription> DescribeNetwork(const ModelSpec& spec,
                                               const std::shared_ptr<ov::Model>& model);

/// Matches the model with its configuration and gives it the shapes that it will run with.
base::Result<Network> ShapeNetwork(const ModelSpec& spec, const OpenvinoSettings& settings,
                                   std::shared_ptr<ov::Model> model);

/// The model with `rows` as its fixed batch.
base::Result<std::shared_ptr<ov::Model>> WithRows(const Network& network, int64_t rows);

/// What went wrong, in one line: OpenVINO's message without its file names and repetitions.
std::string Reason(const std::exception& exception);

}  // namespace stoker::engines::internal
