#include "request_check.h"

#include <cstring>
#include <utility>

#include <stoker/base/str_cat.h>

namespace stoker::host {
namespace {

using base::InvalidArgument;
using base::Quoted;
using base::Status;
using base::StrAppend;
using base::StrCat;

constexpr size_t kNamesShown = 32;

// Names of the model's own tensors are shown plainly, as Triton does; those of a request come from
// outside and are cut and escaped, yet in Triton's quotes.
std::string Outside(std::string_view name) {
  std::string text = Quoted(name);
  text.front() = text.back() = '\'';
  return text;
}

Status WrongInputCount(const IoPlan& plan, const InferRequest& request) {
  std::string got, missing;
  for (size_t i = 0; i < request.inputs.size() && i < kNamesShown; ++i) {
    StrAppend(&got, i == 0 ? "" : ",", Outside(request.inputs[i].name));
  }
  for (const InputPlan& input : plan.inputs) {
    bool found = input.optional;
    for (const InferInput& given : request.inputs) found |= given.name == input.name;
    if (!found) StrAppend(&missing, missing.empty() ? "" : ",", "'", input.name, "'");
  }
  const std::string wanted = plan.any_optional() ? StrCat("number of inputs between ", plan.required_inputs,
                                                          " and ", plan.inputs.size())
                                                 : StrCat(plan.inputs.size(), " inputs");
  return InvalidArgument(StrCat("expected ", wanted, " but got ", request.inputs.size(),
                                " inputs for model '", plan.model, "'. Got input(s) [", got,
                                "], but missing required input(s) [", missing,
                                "]. Please provide all required input(s)."));
}

Status CheckOutputs(const IoPlan& plan, const InferRequest& request, OutputMask* wanted) {
  if (request.requested_outputs.empty()) {
    *wanted = OutputMask::All(plan.outputs.size());
    return base::OkStatus();
  }
  *wanted = OutputMask();
  for (const std::string_view name : request.requested_outputs) {
    const int index = plan.FindOutput(name);
    if (index < 0) {
      return InvalidArgument(
          StrCat("unexpected inference output ", Outside(name), " for model '", plan.model, "'"));
    }
    wanted->Add(static_cast<size_t>(index));
  }
  return base::OkStatus();
}

Status CheckLeftOver(const IoPlan& plan, std::string_view name) {
  if (plan.FindInput(name) >= 0) {
    return InvalidArgument(StrCat("input ", Outside(name), " already exists in request"));
  }
  return InvalidArgument(
      StrCat("unexpected inference input ", Outside(name), " for model '", plan.model, "'"));
}

// Puts the inputs in the plan's order, an empty one where an optional input is absent.
Status ArrangeInputs(const IoPlan& plan, InferRequest* request) {
  auto& inputs = request->inputs;
  if (inputs.size() > plan.inputs.size()) {
    for (size_t i = 1; i < inputs.size() && i <= plan.inputs.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        if (inputs[i].name == inputs[j].name) return CheckLeftOver(plan, inputs[i].name);
      }
    }
    return WrongInputCount(plan, *request);
  }
  if (inputs.size() < plan.required_inputs) return WrongInputCount(plan, *request);
  size_t placed = 0;  // plan.inputs looked at; inputs[0, placed) are in order
  for (; placed < plan.inputs.size(); ++placed) {
    size_t at = placed;
    while (at < inputs.size() && inputs[at].name != plan.inputs[placed].name) ++at;
    if (at == inputs.size()) {
      if (!plan.inputs[placed].optional) break;
      inputs.insert(inputs.begin() + static_cast<ptrdiff_t>(placed),
                    InferInput{.name = plan.inputs[placed].name, .tensor = {}});
    } else if (at != placed) {
      std::swap(inputs[placed], inputs[at]);
    }
  }
  if (inputs.size() > placed) return CheckLeftOver(plan, inputs[placed].name);
  if (placed < plan.inputs.size()) return WrongInputCount(plan, *request);
  return base::OkStatus();
}

Status CheckRows(const IoPlan& plan, const InferRequest& request, int64_t* rows) {
  *rows = 1;
  if (plan.max_batch_size == 0) return base::OkStatus();
  bool first = true;
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    const tensor::Tensor& tensor = request.inputs[i].tensor;
    if (tensor.type == tensor::DataType::kInvalid) continue;
    if (tensor.shape.rank() == 0) {
      return InvalidArgument(StrCat("input '", plan.inputs[i].name,
                                    "' has no shape but model requires batch dimension for '", plan.model,
                                    "'"));
    }
    if (!first && tensor.shape[0] != *rows) {
      return InvalidArgument(StrCat("input '", plan.inputs[i].name,
                                    "' batch size does not match other inputs for '", plan.model, "': got ",
                                    tensor.shape[0], ", the others have ", *rows));
    }
    *rows = tensor.shape[0];
    first = false;
  }
  if (*rows > plan.max_batch_size) {
    return InvalidArgument(StrCat("inference request batch-size must be <= ", plan.max_batch_size, " for '",
                                  plan.model, "', got ", *rows, " (max_batch_size)"));
  }
  if (*rows < 1) {
    return InvalidArgument(
        StrCat("inference request batch-size must be >= 1 for '", plan.model, "', got ", *rows));
  }
  return base::OkStatus();
}

Status WrongShape(const IoPlan& plan, const InputPlan& input, const tensor::Shape& shape) {
  const bool batched = plan.max_batch_size > 0;
  return InvalidArgument(StrCat(
      "unexpected shape for input '", input.name, "' for model '", plan.model, "'. Expected ",
      (batched ? input.dims.WithLeading(-1) : input.dims).ToString(), ", got ", shape.ToString(), ". ",
      batched
          ? "NOTE: Setting a non-zero max_batch_size in the model config requires a batch dimension to be "
            "prepended to each input shape. If you want to specify the full shape including the batch dim in "
            "your input dims config, try setting max_batch_size to zero. See the model configuration docs "
            "for "
            "more info on max_batch_size."
          : ""));
}

bool ShapeFits(const InputPlan& input, const tensor::Shape& shape, size_t leading) {
  if (shape.rank() != input.dims.rank() + leading) return false;
  for (size_t i = 0; i < input.dims.rank(); ++i) {
    if (input.dims[i] >= 0 && input.dims[i] != shape[i + leading]) return false;
  }
  return true;
}

Status CheckElements(const IoPlan& plan, const InputPlan& input, const tensor::Tensor& tensor,
                     int64_t wanted) {
  tensor::BytesReader reader(tensor.bytes.span());
  std::string_view element;
  int64_t found = 0;
  while (found <= wanted && reader.Next(&element)) ++found;
  const size_t left = tensor.bytes.size() - reader.consumed();
  if (!reader.ok() && left < sizeof(uint32_t)) {
    return InvalidArgument(StrCat("incomplete string length indicator for inference input '", input.name,
                                  "' for model '", plan.model, "', expecting 4 bytes but only ", left,
                                  " bytes available for element ", found));
  }
  if (!reader.ok()) {
    uint32_t length = 0;
    std::memcpy(&length, tensor.bytes.data() + reader.consumed(), sizeof(length));
    return InvalidArgument(StrCat("incomplete string data for inference input '", input.name, "' for model '",
                                  plan.model, "', expecting string of length ", length, " but only ",
                                  left - sizeof(length), " bytes available for element ", found));
  }
  if (found == wanted) return base::OkStatus();
  return InvalidArgument(StrCat("unexpected number of string elements ", found,
                                found > wanted ? " or more" : "", " for inference input '", input.name,
                                "' for model '", plan.model, "', expecting ", wanted, " for shape ",
                                tensor.shape.ToString()));
}

Status WrongBytes(const IoPlan& plan, const InputPlan& input, uint64_t wanted, size_t got) {
  return InvalidArgument(StrCat("input byte size mismatch for input '", input.name, "' for model '",
                                plan.model, "'. Expected ", wanted, ", got ", got));
}

Status CheckTensor(const IoPlan& plan, const InputPlan& input, const tensor::Tensor& tensor, int64_t rows) {
  if (tensor.type != input.type) {
    return InvalidArgument(StrCat("inference input '", input.name, "' data-type is '",
                                  tensor::ProtocolName(tensor.type), "', but model '", plan.model,
                                  "' expects '", tensor::ProtocolName(input.type), "'"));
  }
  if (!ShapeFits(input, tensor.shape, plan.max_batch_size > 0 ? 1 : 0))
    return WrongShape(plan, input, tensor.shape);
  if (input.row_bytes >= 0) {
    int64_t wanted = 0;
    if (__builtin_mul_overflow(input.row_bytes, rows, &wanted) ||
        tensor.bytes.size() != static_cast<uint64_t>(wanted)) {
      return WrongBytes(plan, input, static_cast<uint64_t>(wanted), tensor.bytes.size());
    }
    return base::OkStatus();
  }
  const size_t element_size = tensor::ElementSize(input.type);
  const auto count = tensor.shape.ElementCount(element_size);
  if (!count.ok())
    return count.status().WithContext(StrCat("input '", input.name, "' of model '", plan.model, "'"));
  if (input.type == tensor::DataType::kBytes) return CheckElements(plan, input, tensor, *count);
  const uint64_t wanted = static_cast<uint64_t>(*count) * element_size;
  if (tensor.bytes.size() != wanted) return WrongBytes(plan, input, wanted, tensor.bytes.size());
  return base::OkStatus();
}

void AppendInt(int64_t value, std::string* out) {
  out->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

}  // namespace

Status CheckRequest(const IoPlan& plan, InferRequest* request, CheckedRequest* checked) {
  STOKER_RETURN_IF_ERROR(CheckOutputs(plan, *request, &checked->wanted));
  STOKER_RETURN_IF_ERROR(ArrangeInputs(plan, request));
  STOKER_RETURN_IF_ERROR(CheckRows(plan, *request, &checked->rows));
  bool any = false;
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    const tensor::Tensor& tensor = request->inputs[i].tensor;
    if (tensor.type == tensor::DataType::kInvalid && plan.inputs[i].optional) continue;
    any = true;
    STOKER_RETURN_IF_ERROR(CheckTensor(plan, plan.inputs[i], tensor, checked->rows));
  }
  if (!any && !plan.inputs.empty() && plan.max_batch_size > 0) {
    return InvalidArgument(StrCat("model '", plan.model,
                                  "' batches, so a request needs at least one input to tell its "
                                  "batch size; got none"));
  }
  return base::OkStatus();
}

void AppendShapeSignature(const IoPlan& plan, const InferRequest& request, const OutputMask& wanted,
                          std::string* out) {
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    const tensor::Tensor& tensor = request.inputs[i].tensor;
    const bool present = tensor.type != tensor::DataType::kInvalid;
    if (plan.inputs[i].optional) out->push_back(present ? '+' : '-');
    if (!present || plan.inputs[i].ragged) continue;
    for (size_t d = plan.max_batch_size > 0 ? 1 : 0; d < tensor.shape.rank(); ++d) {
      if (plan.inputs[i].dims[d - (plan.max_batch_size > 0 ? 1 : 0)] < 0) AppendInt(tensor.shape[d], out);
    }
  }
  if (!plan.any_optional()) return;
  for (size_t i = 0; i < plan.outputs.size(); ++i) out->push_back(wanted.Has(i) ? '1' : '0');
}

}  // namespace stoker::host
