#include "http/infer_parser.h"

#include <charconv>
#include <deque>

#include <stoker/base/json.h>
#include <stoker/base/str_cat.h>

#include "http/json_tensor.h"
#include "kserve/request_parameters.h"

namespace stoker::serve {
namespace {

using base::JsonKind;
using base::JsonReader;
using base::StrCat;

/// A JSON fault in `field`; 500 for the sake of Triton's clients.
base::Status FieldError(std::string_view field, const base::Status& status) {
  return base::Internal(StrCat("Unable to parse '", field, "': ", status.message()));
}

base::Status Missing(std::string_view field) {
  return base::Internal(
      StrCat("Unable to parse '", field, "': attempt to access non-existing object member '", field, "'"));
}

base::Status BrokenJson(const base::Status& status) {
  return base::Internal(StrCat("failed to parse the request JSON buffer: ", status.message()));
}

#define RETURN_BROKEN_JSON(expression)   \
  do {                                   \
    const base::Status s = (expression); \
    if (!s.ok()) return BrokenJson(s);   \
  } while (false)

/// One input object as read so far: its members may come in any order.
struct InputDraft {
  std::string_view name;
  tensor::DataType type = tensor::DataType::kInvalid;
  tensor::Shape shape;
  bool has_name = false, has_type = false, has_shape = false, has_data = false, bad_type = false;
  bool has_parameters = false;
  std::string_view raw_data;  // text of `data` that came before shape and datatype
  base::Bytes bytes;
  std::optional<uint64_t> binary_size;
};

class InferParser {
 public:
  InferParser(const host::ModelRef& model, const base::Bytes& body, size_t json_bytes,
              const DoorOptions& options)
      : model_(*model),
        body_(body),
        options_(options),
        text_(body.text().substr(0, json_bytes)),
        reader_(text_, {.depth = options.json_depth_max}),
        binary_offset_(json_bytes) {
    call_.request = std::make_unique<host::InferRequest>();
    call_.request->model = model;
  }

  base::Result<HttpInferCall> Parse() {
    const auto kind = reader_.Peek();
    if (!kind.ok()) return BrokenJson(kind.status());
    if (*kind != JsonKind::kObject) {
      RETURN_BROKEN_JSON(reader_.Skip().status());
      RETURN_BROKEN_JSON(reader_.Finish());
      return Missing("inputs");
    }
    STOKER_RETURN_IF_ERROR(ParseRoot());
    RETURN_BROKEN_JSON(reader_.Finish());
    if (!has_inputs_) return Missing("inputs");
    STOKER_RETURN_IF_ERROR(CutBinaryBlocks());
    call_.request->owner = names_;
    return std::move(call_);
  }

 private:
  enum RootKey : unsigned { kId = 1, kParameters = 2, kInputs = 4, kOutputs = 8 };

  base::Status ParseRoot() {
    RETURN_BROKEN_JSON(reader_.EnterObject());
    unsigned seen = 0;  // of duplicate keys the first counts
    for (;;) {
      std::string_view key;
      const auto more = reader_.NextKey(&key);
      if (!more.ok()) return BrokenJson(more.status());
      if (!*more) return base::OkStatus();
      const unsigned bit = key == "inputs"       ? kInputs
                           : key == "outputs"    ? kOutputs
                           : key == "id"         ? kId
                           : key == "parameters" ? kParameters
                                                 : 0u;
      if (bit == 0 || (seen & bit) != 0) {
        RETURN_BROKEN_JSON(reader_.Skip().status());
        continue;
      }
      seen |= bit;
      if (bit == kId) STOKER_RETURN_IF_ERROR(ParseId());
      if (bit == kParameters) STOKER_RETURN_IF_ERROR(ParseRequestParameters());
      if (bit == kInputs) STOKER_RETURN_IF_ERROR(ParseInputs());
      if (bit == kOutputs) STOKER_RETURN_IF_ERROR(ParseOutputs());
    }
  }

  base::Status ParseId() {
    const auto id = reader_.ReadString();
    if (!id.ok()) return FieldError("id", id.status());
    call_.request->id = std::string(*id);
    return base::OkStatus();
  }

  /// Calls `visit(key, value)` for each member of the parameters object at the cursor.
  template <typename Visit>
  base::Status ParseParameters(Visit&& visit) {
    const base::Status entered = reader_.EnterObject();
    if (!entered.ok()) return FieldError("parameters", entered);
    size_t count = 0;
    for (;;) {
      std::string_view key;
      const auto more = reader_.NextKey(&key);
      if (!more.ok()) return BrokenJson(more.status());
      if (!*more) return base::OkStatus();
      if (++count > options_.parameters_max) {
        return base::InvalidArgument(
            StrCat("more than ", options_.parameters_max, " parameters in one object"));
      }
      const std::string name(key);
      host::ParameterValue value;
      STOKER_RETURN_IF_ERROR(ParseValue(name, &value));
      STOKER_RETURN_IF_ERROR(visit(name, std::move(value)));
    }
  }

  base::Status ParseValue(const std::string& name, host::ParameterValue* value) {
    const auto kind = reader_.Peek();
    if (!kind.ok()) return BrokenJson(kind.status());
    if (*kind == JsonKind::kString) {
      const auto text = reader_.ReadString();
      if (!text.ok()) return BrokenJson(text.status());
      *value = std::string(*text);
    } else if (*kind == JsonKind::kBool) {
      const auto flag = reader_.ReadBool();
      if (!flag.ok()) return BrokenJson(flag.status());
      *value = *flag;
    } else if (*kind == JsonKind::kNumber) {
      return ParseNumber(value);
    } else {
      RETURN_BROKEN_JSON(reader_.Skip().status());
      return base::InvalidArgument(
          StrCat("parameter '", name, "' has invalid type, it must be a string, a number or a bool"));
    }
    return base::OkStatus();
  }

  /// Whole numbers that fit in 64 signed bits are integers, all others doubles.
  base::Status ParseNumber(host::ParameterValue* value) {
    std::string_view text;
    const auto number = reader_.ReadDouble(&text);
    if (!number.ok()) return BrokenJson(number.status());
    int64_t integer = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), integer);
    if (error == std::errc() && end == text.data() + text.size()) {
      *value = integer;
    } else {
      *value = *number;
    }
    return base::OkStatus();
  }

  base::Status ParseRequestParameters() {
    return ParseParameters([this](const std::string& name, host::ParameterValue value) {
      if (name == "binary_data_output") {
        const auto* flag = std::get_if<bool>(&value);
        if (flag == nullptr)
          return base::Internal(
              "Unable to parse 'binary_data_output': attempt to access JSON non-boolean as boolean");
        call_.form.binary_default = *flag;
        return base::OkStatus();
      }
      base::Status status = ApplyParameter(name, std::move(value), call_.request.get());
      // A reserved parameter of the wrong JSON type is a fault of the JSON, as with every other field.
      const bool broken = status.code() == base::StatusCode::kInvalidArgument && IsReservedParameter(name);
      if (broken) return FieldError(name, status);
      return status;
    });
  }

  base::Status ParseInputs() {
    const base::Status entered = reader_.EnterArray();
    if (!entered.ok()) return FieldError("inputs", entered);
    has_inputs_ = true;
    call_.request->inputs.reserve(model_.inputs().size());
    for (;;) {
      const auto more = reader_.NextElement();
      if (!more.ok()) return BrokenJson(more.status());
      if (!*more) return base::OkStatus();
      if (call_.request->inputs.size() >= options_.tensors_max) {
        return base::InvalidArgument(StrCat("more than ", options_.tensors_max, " inputs in one request"));
      }
      InputDraft draft;
      STOKER_RETURN_IF_ERROR(ParseInput(&draft));
      STOKER_RETURN_IF_ERROR(FinishInput(&draft));
    }
  }

  base::Status ParseInput(InputDraft* draft) {
    const auto kind = reader_.Peek();
    if (!kind.ok()) return BrokenJson(kind.status());
    if (*kind != JsonKind::kObject) {
      RETURN_BROKEN_JSON(reader_.Skip().status());
      return NoData();
    }
    RETURN_BROKEN_JSON(reader_.EnterObject());
    for (;;) {
      std::string_view key;
      const auto more = reader_.NextKey(&key);
      if (!more.ok()) return BrokenJson(more.status());
      if (!*more) return base::OkStatus();
      STOKER_RETURN_IF_ERROR(ParseInputMember(key, draft));
    }
  }

  base::Status ParseInputMember(std::string_view key, InputDraft* draft) {
    if (key == "name" && !draft->has_name) {
      draft->has_name = true;
      return ReadName(model_.inputs(), &draft->name);
    }
    if (key == "datatype" && !draft->has_type) {
      const auto text = reader_.ReadString();
      if (!text.ok()) return FieldError("datatype", text.status());
      const auto type = tensor::ParseProtocolName(*text);
      draft->has_type = true;
      draft->bad_type = !type.has_value();
      draft->type = type.value_or(tensor::DataType::kInvalid);
      return base::OkStatus();
    }
    if (key == "shape" && !draft->has_shape) {
      draft->has_shape = true;
      return ReadShape(&draft->shape);
    }
    if (key == "data" && !draft->has_data) {
      draft->has_data = true;
      return ReadData(draft);
    }
    if (key == "parameters" && !draft->has_parameters) {
      draft->has_parameters = true;
      return ParseInputParameters(draft);
    }
    const auto skipped = reader_.Skip();
    return skipped.ok() ? base::OkStatus() : BrokenJson(skipped.status());
  }

  /// Names of the model's own tensors become views of the model; others are kept with the request.
  base::Status ReadName(std::span<const host::TensorInfo> known, std::string_view* name) {
    const auto text = reader_.ReadString();
    if (!text.ok()) return FieldError("name", text.status());
    for (const auto& info : known) {
      if (info.name == *text) {
        *name = info.name;
        return base::OkStatus();
      }
    }
    if (!names_) names_ = std::make_shared<std::deque<std::string>>();
    *name = names_->emplace_back(*text);
    return base::OkStatus();
  }

  base::Status ReadShape(tensor::Shape* shape) {
    const base::Status entered = reader_.EnterArray();
    if (!entered.ok()) return FieldError("shape", entered);
    for (;;) {
      const auto more = reader_.NextElement();
      if (!more.ok()) return BrokenJson(more.status());
      if (!*more) return base::OkStatus();
      if (shape->rank() >= tensor::Shape::kRankMax) {
        return base::InvalidArgument(StrCat("a shape of more than ", tensor::Shape::kRankMax, " dimensions"));
      }
      const auto dim = reader_.ReadUint64();
      if (!dim.ok()) return FieldError("shape", dim.status());
      if (*dim > static_cast<uint64_t>(INT64_MAX)) {
        return base::InvalidArgument(StrCat("a dimension of ", *dim, " does not fit in 63 bits"));
      }
      shape->Append(static_cast<int64_t>(*dim));
    }
  }

  base::Status ReadData(InputDraft* draft) {
    const bool ready = draft->has_shape && draft->has_type && !draft->bad_type;
    if (!ready) {
      const auto raw = reader_.Skip();
      if (!raw.ok()) return BrokenJson(raw.status());
      draft->raw_data = *raw;
      return base::OkStatus();
    }
    auto bytes = ReadJsonTensor(&reader_, text_.size(), draft->type, draft->shape);
    if (!bytes.ok()) return bytes.status();
    draft->bytes = std::move(bytes).value();
    return base::OkStatus();
  }

  base::Status ParseInputParameters(InputDraft* draft) {
    return ParseParameters([draft](const std::string& name, host::ParameterValue value) {
      if (name == "binary_data_size") return ReadSize(name, value, &draft->binary_size);
      if (name.starts_with("shared_memory_")) return NoSharedMemory();
      return base::OkStatus();
    });
  }

  static base::Status ReadSize(const std::string& name, const host::ParameterValue& value,
                               std::optional<uint64_t>* size) {
    const auto* number = std::get_if<int64_t>(&value);
    if (number == nullptr || *number < 0) {
      return base::Internal(StrCat("Unable to parse '", name,
                                   "': attempt to access JSON non-unsigned-integer as unsigned-integer"));
    }
    *size = static_cast<uint64_t>(*number);
    return base::OkStatus();
  }

  static base::Status NoSharedMemory() {
    return base::Unimplemented(
        "shared memory regions are not supported by this server; send 'data' or binary data");
  }

  static base::Status NoData() {
    return base::InvalidArgument(
        "Input must set only one of the following fields: 'data', 'binary_data_size' in 'parameters', "
        "'shared_memory_region' in 'parameters'. But no field is set");
  }

  base::Status FinishInput(InputDraft* draft) {
    if (!draft->has_data && !draft->binary_size) return NoData();
    if (draft->has_data && draft->binary_size) {
      return base::InvalidArgument(
          "Input must set only one of the following fields: 'data', 'binary_data_size' in 'parameters', "
          "'shared_memory_region' in 'parameters'. But both 'data' and 'binary_data_size' are set");
    }
    if (!draft->has_name) return Missing("name");
    if (!draft->has_shape) return Missing("shape");
    if (!draft->has_type) return Missing("datatype");
    if (draft->bad_type) return base::InvalidArgument(StrCat("invalid datatype for input ", draft->name));
    if (!draft->raw_data.empty()) {
      JsonReader late(draft->raw_data, {.depth = options_.json_depth_max});
      STOKER_ASSIGN_OR_RETURN(draft->bytes,
                              ReadJsonTensor(&late, draft->raw_data.size(), draft->type, draft->shape));
    }
    binary_sizes_.push_back(draft->binary_size);
    call_.request->inputs.push_back(
        {draft->name, {draft->type, std::move(draft->shape), std::move(draft->bytes)}});
    return base::OkStatus();
  }

  base::Status ParseOutputs() {
    const base::Status entered = reader_.EnterArray();
    if (!entered.ok()) return FieldError("outputs", entered);
    for (;;) {
      const auto more = reader_.NextElement();
      if (!more.ok()) return BrokenJson(more.status());
      if (!*more) return base::OkStatus();
      if (call_.form.outputs.size() >= options_.tensors_max) {
        return base::InvalidArgument(StrCat("more than ", options_.tensors_max, " outputs in one request"));
      }
      STOKER_RETURN_IF_ERROR(ParseOutput());
    }
  }

  base::Status ParseOutput() {
    const base::Status entered = reader_.EnterObject();
    if (!entered.ok()) return FieldError("outputs", entered);
    HttpAnswerForm::Output output;
    std::string_view name;
    bool has_name = false;
    bool has_parameters = false;
    for (;;) {
      std::string_view key;
      const auto more = reader_.NextKey(&key);
      if (!more.ok()) return BrokenJson(more.status());
      if (!*more) break;
      if (key == "name" && !has_name) {
        has_name = true;
        STOKER_RETURN_IF_ERROR(ReadName(model_.outputs(), &name));
      } else if (key == "parameters" && !has_parameters) {
        has_parameters = true;
        STOKER_RETURN_IF_ERROR(ParseOutputParameters(&output));
      } else {
        RETURN_BROKEN_JSON(reader_.Skip().status());
      }
    }
    if (!has_name) return Missing("name");
    output.index = model_.FindOutput(name);
    call_.request->requested_outputs.push_back(name);
    call_.form.outputs.push_back(output);
    return base::OkStatus();
  }

  base::Status ParseOutputParameters(HttpAnswerForm::Output* output) {
    return ParseParameters([output](const std::string& name, host::ParameterValue value) {
      if (name == "binary_data") {
        const auto* flag = std::get_if<bool>(&value);
        if (flag == nullptr)
          return base::Internal(
              "Unable to parse 'binary_data': attempt to access JSON non-boolean as boolean");
        output->binary = *flag;
      } else if (name == "classification") {
        std::optional<uint64_t> classes;
        STOKER_RETURN_IF_ERROR(ReadSize(name, value, &classes));
        output->classes = *classes;
      } else if (name.starts_with("shared_memory_")) {
        return NoSharedMemory();
      }
      return base::OkStatus();
    });
  }

  base::Status CutBinaryBlocks() {
    for (size_t i = 0; i < binary_sizes_.size(); ++i) {
      if (!binary_sizes_[i]) continue;
      auto& input = call_.request->inputs[i];
      const size_t left = body_.size() - binary_offset_;
      if (*binary_sizes_[i] > left) {
        return base::InvalidArgument(StrCat("unexpected size for input '", input.name, "', expecting ",
                                            *binary_sizes_[i], " additional bytes, but only ", left,
                                            " are left in the request"));
      }
      input.tensor.bytes = body_.Slice(binary_offset_, *binary_sizes_[i]);
      binary_offset_ += *binary_sizes_[i];
    }
    if (binary_offset_ != body_.size()) {
      return base::InvalidArgument(StrCat("unexpected additional input data for model '", model_.name(),
                                          "': ", body_.size() - binary_offset_, " bytes belong to no input"));
    }
    return base::OkStatus();
  }

  const host::Model& model_;
  const base::Bytes& body_;
  const DoorOptions& options_;
  const std::string_view text_;
  JsonReader reader_;
  size_t binary_offset_;
  bool has_inputs_ = false;
  HttpInferCall call_;
  std::vector<std::optional<uint64_t>> binary_sizes_;
  std::shared_ptr<std::deque<std::string>> names_;  // shared: the request outlives the parser
};

#undef RETURN_BROKEN_JSON

/// Fills in the one variable dimension of a raw input from the number of its bytes.
base::Status DeduceShape(const host::TensorInfo& input, size_t bytes, tensor::Shape* shape) {
  const size_t element = tensor::ElementSize(input.type);
  size_t known = element;
  size_t variable = shape->rank();
  for (size_t i = 0; i < shape->rank(); ++i) {
    if ((*shape)[i] >= 0) {
      known *= static_cast<size_t>((*shape)[i]);
    } else if (variable != shape->rank()) {
      return base::InvalidArgument(
          StrCat("The shape of the raw input '", input.name,
                 "' can not be deduced because there are more than one variable-sized dimension"));
    } else {
      variable = i;
    }
  }
  if (variable == shape->rank()) return base::OkStatus();
  if (known == 0 || bytes % known != 0) {
    return base::InvalidArgument(StrCat("The raw input '", input.name, "' has ", bytes,
                                        " bytes, which is no multiple of ", known, " as shape ",
                                        shape->ToString(), " asks for"));
  }
  (*shape)[variable] = static_cast<int64_t>(bytes / known);
  return base::OkStatus();
}

}  // namespace

base::Result<HttpInferCall> ParseInfer(const host::ModelRef& model, const base::Bytes& body,
                                       size_t json_bytes, const DoorOptions& options) {
  return InferParser(model, body, json_bytes, options).Parse();
}

base::Result<HttpInferCall> ParseRawInfer(const host::ModelRef& model, const base::Bytes& body) {
  if (model->inputs().size() != 1) {
    return base::InvalidArgument(
        StrCat("Raw request must only have 1 input (found ", model->inputs().size(),
               ") to be deduced but got more; send 'Inference-Header-Content-Length' and JSON"));
  }
  const host::TensorInfo& input = model->inputs()[0];
  HttpInferCall call;
  call.form.binary_default = true;
  call.request = std::make_unique<host::InferRequest>();
  call.request->model = model;

  tensor::Shape shape = input.dims;
  base::Bytes bytes = body;
  if (input.type == tensor::DataType::kBytes) {
    if (shape.rank() != 1 || shape[0] != 1) {
      return base::InvalidArgument(StrCat("For BYTE datatype raw input '", input.name,
                                          "', the model must have input shape [1], got ", shape.ToString()));
    }
    shape = {1};
    std::string element;
    tensor::AppendBytesElement(&element, body.text());
    bytes = base::Bytes::Own(std::move(element));
  } else {
    STOKER_RETURN_IF_ERROR(DeduceShape(input, body.size(), &shape));
  }
  if (model->max_batch_size() > 0) shape = shape.WithLeading(1);
  call.request->inputs.push_back({input.name, {input.type, std::move(shape), std::move(bytes)}});
  return call;
}

}  // namespace stoker::serve
