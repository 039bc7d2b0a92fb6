#include "openvino/network.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <unordered_set>

#include <openvino/frontend/manager.hpp>
#include <openvino/op/constant.hpp>

#include <stoker/base/str_cat.h>

#include "openvino/onnx_check.h"
#include "openvino/openvino_names.h"
#include "parameters_internal.h"

namespace stoker::engines::internal {
namespace {

using tensor::DataType;
using tensor::Shape;

// Texts are left out: the CPU plugin damages the heap when their number changes from run to run.
DataType TypeOf(const ov::element::Type& element) {
  switch (static_cast<ov::element::Type_t>(element)) {
    case ov::element::Type_t::boolean:
      return DataType::kBool;
    case ov::element::Type_t::u8:
      return DataType::kUint8;
    case ov::element::Type_t::u16:
      return DataType::kUint16;
    case ov::element::Type_t::u32:
      return DataType::kUint32;
    case ov::element::Type_t::u64:
      return DataType::kUint64;
    case ov::element::Type_t::i8:
      return DataType::kInt8;
    case ov::element::Type_t::i16:
      return DataType::kInt16;
    case ov::element::Type_t::i32:
      return DataType::kInt32;
    case ov::element::Type_t::i64:
      return DataType::kInt64;
    case ov::element::Type_t::f16:
      return DataType::kFp16;
    case ov::element::Type_t::bf16:
      return DataType::kBf16;
    case ov::element::Type_t::f32:
      return DataType::kFp32;
    case ov::element::Type_t::f64:
      return DataType::kFp64;
    default:
      return DataType::kInvalid;
  }
}

base::Result<Shape> ShapeOf(const std::string& name, const ov::PartialShape& shape) {
  if (shape.rank().is_dynamic()) {
    return base::FailedPrecondition(
        base::StrCat("the number of dimensions of '", name,
                     "' is not known before it runs; give its dims in config.pbtxt"));
  }
  Shape dims;
  for (const ov::Dimension& dimension : shape)
    dims.Append(dimension.is_dynamic() ? -1 : dimension.get_length());
  return dims;
}

std::string NameOf(const ov::Output<const ov::Node>& port) {
  const auto& names = port.get_names();
  if (names.empty()) return port.get_node()->get_friendly_name();
  // Several names can stand for one tensor; the least is a choice that does not vary from run to run.
  return *std::min_element(names.begin(), names.end());
}

bool HasName(const ov::Output<const ov::Node>& port, const std::string& name) {
  return port.get_names().count(name) > 0 || NameOf(port) == name;
}

std::string NamesOf(const std::vector<ov::Output<const ov::Node>>& ports) {
  std::string names;
  for (const auto& port : ports) base::StrAppend(&names, names.empty() ? "'" : ", '", NameOf(port), "'");
  return names.empty() ? "none" : names;
}

std::vector<ov::Output<const ov::Node>> InputsOf(const ov::Model& model) { return model.inputs(); }
std::vector<ov::Output<const ov::Node>> OutputsOf(const ov::Model& model) { return model.outputs(); }

base::Result<std::vector<TensorSpec>> DescribePorts(const std::vector<ov::Output<const ov::Node>>& ports) {
  std::vector<TensorSpec> specs;
  for (const auto& port : ports) {
    TensorSpec spec;
    spec.name = NameOf(port);
    spec.type = TypeOf(port.get_element_type());
    if (spec.type == DataType::kInvalid) {
      return base::Unimplemented(base::StrCat("tensor '", spec.name, "' has the element type ",
                                              port.get_element_type().to_string(),
                                              ", which cannot be served"));
    }
    STOKER_ASSIGN_OR_RETURN(spec.dims, ShapeOf(spec.name, port.get_partial_shape()));
    specs.push_back(std::move(spec));
  }
  return specs;
}

// The first dimension that all inputs have, when they agree: -1 dynamic, > 0 fixed, 0 none.
int64_t CommonRows(const ov::Model& model) {
  int64_t common = 0;
  for (const auto& port : InputsOf(model)) {
    const ov::PartialShape& shape = port.get_partial_shape();
    if (shape.rank().is_dynamic() || shape.size() == 0) return 0;
    const int64_t rows = shape[0].is_dynamic() ? -1 : shape[0].get_length();
    if (common != 0 && rows != common) return 0;
    common = rows;
  }
  return common;
}

bool OutputsHaveRows(const ov::Model& model, const ov::Dimension& rows) {
  for (const auto& port : OutputsOf(model)) {
    const ov::PartialShape& shape = port.get_partial_shape();
    if (shape.rank().is_dynamic() || shape.size() == 0 || shape[0] != rows) return false;
  }
  return true;
}

using Shapes = std::map<size_t, ov::PartialShape>;

// Reshapes a copy; null with the reason in `why` when the network does not take the shapes.
std::shared_ptr<ov::Model> Reshaped(const ov::Model& model, const Shapes& shapes, std::string* why) {
  try {
    std::shared_ptr<ov::Model> copy = model.clone();
    copy->reshape(shapes);
    return copy;
  } catch (const std::exception& exception) {
    *why = Reason(exception);
    return nullptr;
  }
}

Shapes WithFirst(const ov::Model& model, Shapes shapes, const ov::Dimension& rows) {
  for (size_t i = 0; i < InputsOf(model).size(); ++i) shapes[i][0] = rows;
  return shapes;
}

base::Result<std::vector<Port>> MatchPorts(const ModelSpec& spec, const std::vector<TensorSpec>& wanted,
                                           const std::vector<ov::Output<const ov::Node>>& ports) {
  std::vector<Port> matched;
  std::set<size_t> taken;
  for (const TensorSpec& tensor : wanted) {
    const auto found =
        std::find_if(ports.begin(), ports.end(), [&](const auto& p) { return HasName(p, tensor.name); });
    if (found == ports.end()) {
      return base::InvalidArgument(base::StrCat(ModelLabel(spec), ": the configuration names the tensor '",
                                                tensor.name, "', which the model does not have; it has ",
                                                NamesOf(ports)));
    }
    Port port{.name = tensor.name,
              .index = static_cast<size_t>(found - ports.begin()),
              .type = tensor.type,
              .element = found->get_element_type(),
              .dims = tensor.dims};
    if (!taken.insert(port.index).second) {
      return base::InvalidArgument(
          base::StrCat(ModelLabel(spec), ": tensor '", tensor.name, "' is listed twice"));
    }
    if (TypeOf(port.element) == DataType::kInvalid || TypeOf(port.element) != tensor.type) {
      return base::InvalidArgument(base::StrCat(
          ModelLabel(spec), ": tensor '", tensor.name, "' is configured as ", ConfigName(tensor.type),
          ", but the model has ",
          TypeOf(port.element) == DataType::kInvalid ? port.element.to_string()
                                                     : std::string(ConfigName(TypeOf(port.element)))));
    }
    if (tensor.optional || tensor.ragged) {
      return base::Unimplemented(base::StrCat(ModelLabel(spec), ": tensor '", tensor.name, "' is ",
                                              tensor.optional ? "optional" : "allow_ragged_batch",
                                              ", which the openvino engine does not support"));
    }
    matched.push_back(std::move(port));
  }
  return matched;
}

// The shape an input is to have: fixed dimensions of the file, or of the configuration where the file
// leaves them open. Without the batch dimension, which the caller sets.
base::Result<ov::PartialShape> InputShape(const ModelSpec& spec, const Port& port,
                                          const ov::PartialShape& file, bool reshape_io) {
  const Shape full = spec.max_batch_size > 0 ? port.dims.WithLeading(-1) : port.dims;
  const auto mismatch = [&](std::string_view advice) {
    return base::InvalidArgument(
        base::StrCat(ModelLabel(spec), ": input '", port.name, "' has the shape ", file.to_string(),
                     " in the model but ", full.ToString(), " in the configuration",
                     spec.max_batch_size > 0 ? " (batch dimension first)" : "", advice));
  };
  if (file.rank().is_static() && file.size() != full.rank()) return mismatch("");
  ov::PartialShape shape;
  for (size_t i = 0; i < full.rank(); ++i) {
    const ov::Dimension dimension = file.rank().is_dynamic() ? ov::Dimension() : file[i];
    const bool is_batch = i == 0 && spec.max_batch_size > 0;
    const ov::Dimension wanted = full[i] < 0 ? ov::Dimension() : ov::Dimension(full[i]);
    if (is_batch || (dimension.is_dynamic() && wanted.is_dynamic()))
      shape.push_back(dimension);
    else if (dimension.compatible(wanted) && wanted.is_static())
      shape.push_back(wanted);
    else if (reshape_io)
      shape.push_back(wanted);
    else
      return mismatch("; parameter RESHAPE_IO_LAYERS lets the configuration override the file");
  }
  return shape;
}

// Whether a run of `rows` rows can give no other shape than rows × the fixed rest.
bool IsKnown(const ov::PartialShape& shape, const Network& network) {
  if (shape.rank().is_dynamic()) return false;
  for (size_t i = 0; i < shape.size(); ++i) {
    const bool is_rows = i == 0 && network.batched;
    if (is_rows && shape[0] == ov::Dimension(1, network.rows_max)) continue;
    if (shape[i].is_dynamic()) return false;
  }
  return true;
}

base::Status CheckOutputs(const ModelSpec& spec, Network* out) {
  Network& network = *out;
  const auto ports = OutputsOf(*network.model);
  for (Port& port : network.outputs) {
    const ov::PartialShape& shape = ports[port.index].get_partial_shape();
    const Shape full = network.batched ? port.dims.WithLeading(-1) : port.dims;
    ov::PartialShape wanted;
    for (const int64_t dim : full) wanted.push_back(dim < 0 ? ov::Dimension() : ov::Dimension(dim));
    port.shape_known = IsKnown(shape, network) && !port.dims.has_wildcard();
    if (shape.compatible(wanted)) continue;
    return base::InvalidArgument(base::StrCat(ModelLabel(spec), ": output '", port.name, "' has the shape ",
                                              shape.to_string(), " in the model but ", full.ToString(),
                                              " in the configuration",
                                              network.batched ? " (batch dimension first)" : ""));
  }
  return base::OkStatus();
}

size_t WeightBytes(const ov::Model& model) {
  size_t bytes = 0;
  for (const auto& node : model.get_ops()) {
    if (const auto constant = std::dynamic_pointer_cast<ov::op::v0::Constant>(node))
      bytes += constant->get_byte_size();
  }
  return bytes;
}

// Makes the first dimension 1…rows_max, or leaves the file's fixed batch and says why.
base::Status ShapeRows(const ModelSpec& spec, const Shapes& shapes, Network* network) {
  const ov::Model& file = *network->model;
  const int64_t rows = CommonRows(file);
  if (rows == 0) {
    return base::InvalidArgument(base::StrCat(
        ModelLabel(spec), ": max_batch_size is ", spec.max_batch_size, ", but the inputs of ", network->file,
        " have no common first dimension to batch over; set it to 0 and give full dims"));
  }
  network->file_rows = std::max<int64_t>(rows, 0);
  const ov::Dimension any_rows(1, spec.max_batch_size);
  std::string why;
  std::shared_ptr<ov::Model> model = Reshaped(file, WithFirst(file, shapes, any_rows), &why);
  if (model != nullptr && network->file_rows > 0 && !OutputsHaveRows(*model, any_rows)) {
    why = "an output keeps its size whatever the batch";
    model = nullptr;
  }
  network->dynamic_rows = model != nullptr;
  if (model == nullptr && network->file_rows == 0)
    model = Reshaped(file, WithFirst(file, shapes, ov::Dimension()), &why);
  if (model != nullptr) {
    network->dynamic_rows = true;
    network->model = std::move(model);
    return base::OkStatus();
  }
  network->why_fixed = why;
  model = Reshaped(file, shapes, &why);
  if (model == nullptr) {
    return base::InvalidArgument(
        base::StrCat(network->file, ": the model cannot take the configured dims: ", why));
  }
  network->model = std::move(model);
  if (OutputsHaveRows(*network->model, ov::Dimension(network->file_rows))) return base::OkStatus();
  return base::InvalidArgument(
      base::StrCat(network->file, ": an output has no batch dimension of ", network->file_rows,
                   " as the inputs have; set max_batch_size to 0 and give full dims"));
}

}  // namespace

std::string Reason(const std::exception& exception) {
  std::istringstream lines(exception.what());
  std::string reason, line;
  while (std::getline(lines, line)) {
    const size_t start = line.find_first_not_of(" \t");
    if (start == std::string::npos) continue;
    line = line.substr(start);
    if (line.starts_with("Exception from") || line.starts_with("Check '") ||
        line.starts_with("While validating"))
      continue;
    if (reason.find(line) != std::string::npos) continue;
    base::StrAppend(&reason, reason.empty() ? "" : " ", line);
  }
  if (reason.empty()) reason = exception.what();
  constexpr size_t kReasonMax = 500;
  if (reason.size() > kReasonMax) reason = reason.substr(0, kReasonMax) + "…";
  return reason;
}

base::Result<std::string> FindModelFile(const ModelSpec& spec) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!spec.filename.empty()) {
    const std::string path = base::StrCat(spec.version_path, "/", spec.filename);
    if (fs::exists(path, error)) return path;
    return base::NotFound(base::StrCat("unable to find '", path, "' for ", ModelLabel(spec)));
  }
  std::string tried;
  for (const std::string_view name : OpenvinoFilenames()) {
    const std::string path = base::StrCat(spec.version_path, "/", name);
    if (fs::exists(path, error)) return path;
    base::StrAppend(&tried, tried.empty() ? "" : ", ", name);
  }
  return base::NotFound(base::StrCat("unable to find a model file in '", spec.version_path, "' for ",
                                     ModelLabel(spec), "; expected one of ", tried));
}

// A frozen TensorFlow graph calls the first result of node "x" "x:0"; configurations say "x".
void AddNodeNames(ov::Model* model) {
  std::vector<ov::Output<ov::Node>> ports = model->inputs();
  for (const ov::Output<ov::Node>& port : model->outputs()) ports.push_back(port);
  for (ov::Output<ov::Node>& port : ports) {
    const std::unordered_set<std::string> names = port.get_names();
    for (const std::string& name : names) {
      if (name.ends_with(":0")) port.add_names({name.substr(0, name.size() - 2)});
    }
  }
}

// Reads with the configured input shapes: some networks can be converted only when they are known.
// Throws what OpenVINO throws.
std::shared_ptr<ov::Model> ReadWithShapes(const ModelSpec& spec, const std::string& file) {
  ov::frontend::FrontEndManager manager;
  const ov::frontend::FrontEnd::Ptr frontend = manager.load_by_model(file);
  if (frontend == nullptr) return nullptr;
  constexpr bool kMapFile = false;
  const ov::frontend::InputModel::Ptr input_model = frontend->load(file, kMapFile);
  for (const ov::frontend::Place::Ptr& place : input_model->get_inputs()) {
    const std::vector<std::string> names = place->get_names();
    for (const TensorSpec& input : spec.inputs) {
      if (std::find(names.begin(), names.end(), input.name) == names.end()) continue;
      ov::PartialShape shape;
      if (spec.max_batch_size > 0) shape.push_back(ov::Dimension());
      for (const int64_t dim : input.dims) shape.push_back(dim < 0 ? ov::Dimension() : ov::Dimension(dim));
      input_model->set_partial_shape(place, shape);
    }
  }
  return frontend->convert(input_model);
}

// OpenVINO knows an ONNX file by its content, whatever its name says.
bool IsOnnx(const std::string& file) {
  if (file.ends_with(".onnx")) return true;
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) return false;
  try {
    ov::frontend::FrontEndManager manager;
    const ov::frontend::FrontEnd::Ptr frontend = manager.load_by_model(file);
    return frontend != nullptr && frontend->get_name() == "onnx";
  } catch (const std::exception&) {
    return false;  // then it cannot be read as anything
  }
}

base::Result<std::shared_ptr<ov::Model>> ReadNetwork(ov::Core& core, const ModelSpec& spec,
                                                     const std::string& file) {
  if (IsOnnx(file)) STOKER_RETURN_IF_ERROR(CheckOnnxFile(file));
  std::shared_ptr<ov::Model> model;
  try {
    model = core.read_model(file);
  } catch (const std::exception& exception) {
    const std::string reason = Reason(exception);
    try {
      if (!spec.inputs.empty()) model = ReadWithShapes(spec, file);
    } catch (const std::exception&) {
      // The first attempt's reason tells more.
    }
    if (model == nullptr) {
      return base::InvalidArgument(
          base::StrCat(file, ": OpenVINO cannot read the model: ", reason,
                       spec.inputs.empty() ? " (inputs with fixed dims in config.pbtxt may help)" : ""));
    }
  }
  if (file.ends_with(".graphdef") || file.ends_with(".pb")) AddNodeNames(model.get());
  if (!model->get_variables().empty()) {
    return base::Unimplemented(base::StrCat(ModelLabel(spec), ": ", file, " keeps state between runs (",
                                            model->get_variables().size(),
                                            " variables), which is not supported"));
  }
  return model;
}

base::Result<ModelDescription> DescribeNetwork(const ModelSpec& spec,
                                               const std::shared_ptr<ov::Model>& model) {
  ModelDescription description;
  auto inputs = DescribePorts(InputsOf(*model));
  if (!inputs.ok()) return inputs.status().WithContext(ModelLabel(spec));
  auto outputs = DescribePorts(OutputsOf(*model));
  if (!outputs.ok()) return outputs.status().WithContext(ModelLabel(spec));
  description.inputs = std::move(inputs).value();
  description.outputs = std::move(outputs).value();
  const int64_t rows = CommonRows(*model);
  if (rows < 0) {
    const auto first_is_open = [](const TensorSpec& t) { return t.dims.rank() > 0 && t.dims[0] == -1; };
    description.batchable =
        std::all_of(description.outputs.begin(), description.outputs.end(), first_is_open);
  } else if (rows > 0) {
    const ov::Dimension probe(1, 1000003);
    Shapes shapes;
    for (size_t i = 0; i < model->inputs().size(); ++i) shapes[i] = model->input(i).get_partial_shape();
    std::string why;
    const auto reshaped = Reshaped(*model, WithFirst(*model, shapes, probe), &why);
    description.batchable = reshaped != nullptr && OutputsHaveRows(*reshaped, probe);
    description.batch_hint = rows;
  }
  return description;
}

base::Result<Network> ShapeNetwork(const ModelSpec& spec, const OpenvinoSettings& settings,
                                   std::shared_ptr<ov::Model> model) {
  Network network;
  network.model = std::move(model);
  network.batched = spec.max_batch_size > 0;
  network.rows_max = std::max<int64_t>(spec.max_batch_size, 1);
  STOKER_ASSIGN_OR_RETURN(network.file, FindModelFile(spec));
  STOKER_ASSIGN_OR_RETURN(network.inputs, MatchPorts(spec, spec.inputs, InputsOf(*network.model)));
  STOKER_ASSIGN_OR_RETURN(network.outputs, MatchPorts(spec, spec.outputs, OutputsOf(*network.model)));
  if (network.inputs.size() != network.model->inputs().size()) {
    return base::InvalidArgument(base::StrCat(
        ModelLabel(spec), ": the configuration has ", network.inputs.size(), " inputs, but the model ",
        network.model->inputs().size(), ": ", NamesOf(InputsOf(*network.model))));
  }
  Shapes shapes;
  for (const Port& port : network.inputs) {
    const ov::PartialShape& file_shape = network.model->inputs()[port.index].get_partial_shape();
    STOKER_ASSIGN_OR_RETURN(shapes[port.index], InputShape(spec, port, file_shape, settings.reshape_io));
  }
  if (network.batched) {
    STOKER_RETURN_IF_ERROR(ShapeRows(spec, shapes, &network));
  } else {
    std::string why;
    std::shared_ptr<ov::Model> reshaped = Reshaped(*network.model, shapes, &why);
    if (reshaped == nullptr) {
      return base::InvalidArgument(
          base::StrCat(network.file, ": the model cannot take the configured dims: ", why));
    }
    network.model = std::move(reshaped);
  }
  STOKER_RETURN_IF_ERROR(CheckOutputs(spec, &network));
  network.weight_bytes = WeightBytes(*network.model);
  return network;
}

base::Result<std::shared_ptr<ov::Model>> WithRows(const Network& network, int64_t rows) {
  Shapes shapes;
  for (size_t i = 0; i < network.model->inputs().size(); ++i)
    shapes[i] = network.model->input(i).get_partial_shape();
  std::string why;
  auto model = Reshaped(*network.model, WithFirst(*network.model, shapes, ov::Dimension(rows)), &why);
  if (model != nullptr) return model;
  return base::InvalidArgument(
      base::StrCat(network.file, ": the model cannot take a batch of ", rows, ": ", why));
}

}  // namespace stoker::engines::internal
