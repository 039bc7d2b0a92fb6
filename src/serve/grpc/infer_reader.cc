#include "grpc/infer_reader.h"

#include <string>
#include <utility>

#include <stoker/base/str_cat.h>
#include <stoker/base/utf8.h>

#include "grpc/infer_parameters.h"
#include "grpc/typed_contents.h"
#include "grpc/wire.h"
#include "kserve/error_text.h"
#include "kserve/request_parameters.h"

namespace stoker::serve {
namespace {

using base::StrCat;

// ModelInferRequest.
constexpr uint32_t kModelName = 1;
constexpr uint32_t kModelVersion = 2;
constexpr uint32_t kId = 3;
constexpr uint32_t kParameters = 4;
constexpr uint32_t kInputs = 5;
constexpr uint32_t kOutputs = 6;
constexpr uint32_t kRawContents = 7;

constexpr std::string_view kEmptyFinalResponse = "triton_enable_empty_final_response";

/// A name from outside for a message: cut and escaped, in Triton's quotes.
std::string InQuotes(std::string_view name) {
  std::string text = base::Quoted(name);
  text.front() = text.back() = '\'';
  return text;
}

base::Status TooMany(std::string_view what, size_t count, size_t limit) {
  return base::ResourceExhausted(
      StrCat("the request has ", count, " ", what, ", at most ", limit, " are taken"));
}

/// One InferInputTensor as read so far.
struct InputDraft {
  std::string_view name, datatype;
  tensor::Shape shape;
  std::string_view contents;
  bool has_contents = false;
  std::string merged;  // contents given in several pieces are one message: `contents` is a view of this then
};

class InferReader {
 public:
  InferReader(const InferEnvelope& envelope, const host::ModelRef& model, const base::Bytes& message)
      : envelope_(envelope), model_(*model), message_(message) {
    call_.request = std::make_unique<host::InferRequest>();
    call_.request->model = model;
    call_.request->id = std::string(envelope.id);
    call_.request->owner = message.owner();
    call_.request->inputs.reserve(envelope.inputs);
    call_.request->requested_outputs.reserve(envelope.outputs);
  }

  base::Result<GrpcInferCall> Read() {
    WireReader reader(message_.text());
    WireField field;
    while (reader.Next(&field)) {
      if (!field.Is(WireType::kBytes)) continue;
      if (field.number == kInputs) STOKER_RETURN_IF_ERROR(ReadInput(field.bytes));
      if (field.number == kOutputs) STOKER_RETURN_IF_ERROR(ReadOutput(field.bytes));
    }
    if (envelope_.raw_contents > 0) STOKER_RETURN_IF_ERROR(AssignRawContents());
    if (envelope_.parameters > 0) STOKER_RETURN_IF_ERROR(ReadRequestParameters());
    return std::move(call_);
  }

 private:
  base::Status ReadInput(std::string_view message) {
    InputDraft draft;
    WireReader reader(message);
    WireField field;
    while (reader.Next(&field)) {
      if (field.number == 3) {
        STOKER_RETURN_IF_ERROR(ReadShape(field, &draft));
        continue;
      }
      if (!field.Is(WireType::kBytes)) continue;
      if (field.number == 1 || field.number == 2) {
        if (!base::IsUtf8(field.bytes)) return MalformedMessage();
        (field.number == 1 ? draft.name : draft.datatype) = field.bytes;
      }
      if (field.number == 4) STOKER_RETURN_IF_ERROR(ReadInputParameter(field.bytes));
      if (field.number == 5) STOKER_RETURN_IF_ERROR(AddContents(field.bytes, &draft));
    }
    if (!reader.ok()) return MalformedMessage();
    return FinishInput(&draft);
  }

  /// Values of `repeated int64 shape`, packed or one by one.
  base::Status ReadShape(const WireField& field, InputDraft* draft) {
    if (field.Is(WireType::kVarint)) return AppendDim(field.value, draft);
    if (!field.Is(WireType::kBytes)) return base::OkStatus();
    const char* at = field.bytes.data();
    const char* end = at + field.bytes.size();
    while (at != end) {
      uint64_t dim = 0;
      if (!ReadVarint(&at, end, &dim)) return MalformedMessage();
      STOKER_RETURN_IF_ERROR(AppendDim(dim, draft));
    }
    return base::OkStatus();
  }

  static base::Status AppendDim(uint64_t dim, InputDraft* draft) {
    if (draft->shape.rank() >= tensor::Shape::kRankMax) {
      return base::InvalidArgument(
          StrCat("an input has a shape of more than ", tensor::Shape::kRankMax, " dimensions"));
    }
    draft->shape.Append(static_cast<int64_t>(dim));
    return base::OkStatus();
  }

  static base::Status ReadInputParameter(std::string_view entry) {
    STOKER_ASSIGN_OR_RETURN(const WireParameter parameter, ReadParameter(entry));
    return parameter.key.starts_with("shared_memory_") ? NoSharedMemory() : base::OkStatus();
  }

  static base::Status NoSharedMemory() {
    return base::Unimplemented(
        "shared memory regions are not supported by this server; send raw_input_contents");
  }

  /// Whether the fields of a message are whole; what they hold is not looked at.
  static bool IsWhole(std::string_view message) {
    WireReader reader(message);
    WireField field;
    while (reader.Next(&field)) {
    }
    return reader.ok();
  }

  /// Pieces are read as one message, but each must be one for itself.
  static base::Status AddContents(std::string_view contents, InputDraft* draft) {
    if (!draft->has_contents) {
      draft->has_contents = true;
      draft->contents = contents;
      return base::OkStatus();
    }
    if (draft->merged.empty() && !IsWhole(draft->contents)) return MalformedMessage();
    if (!IsWhole(contents)) return MalformedMessage();
    if (draft->merged.empty()) draft->merged = std::string(draft->contents);
    draft->merged += contents;
    draft->contents = draft->merged;
    return base::OkStatus();
  }

  base::Status FinishInput(InputDraft* draft) {
    const auto type = tensor::ParseProtocolName(draft->datatype);
    host::InferInput input;
    input.name = draft->name;
    if (draft->has_contents && envelope_.raw_contents > 0) {
      return base::InvalidArgument(
          StrCat("contents field must not be specified when using raw_input_contents for ",
                 InQuotes(draft->name), " for model '", model_.name(), "'"));
    }
    if (!draft->has_contents && envelope_.raw_contents == 0) return NoData(draft->name);
    if (!type) STOKER_RETURN_IF_ERROR(RefuseDatatype(draft->name));
    input.tensor.type = type.value_or(tensor::DataType::kInvalid);
    input.tensor.shape = std::move(draft->shape);
    if (draft->has_contents && type) {
      const std::string name = base::Quoted(draft->name);
      const ContentsOwner owner{std::string_view(name).substr(1, name.size() - 2), model_.name()};
      STOKER_ASSIGN_OR_RETURN(input.tensor.bytes, ConvertContents(owner, *type, draft->contents));
    }
    call_.request->inputs.push_back(std::move(input));
    return base::OkStatus();
  }

  base::Status NoData(std::string_view input) const {
    return base::InvalidArgument(StrCat("unable to find data for input tensor ", InQuotes(input),
                                        " for model '", model_.name(), "' in request."));
  }

  /// A datatype that does not exist, for an input of the model. Inputs that the model does not know are
  /// the host's to refuse.
  base::Status RefuseDatatype(std::string_view name) const {
    const int index = model_.FindInput(name);
    if (index < 0) return base::OkStatus();
    const auto& wanted = model_.inputs()[static_cast<size_t>(index)];
    return base::InvalidArgument(WithRequestId(
        envelope_.id, StrCat("inference input '", wanted.name, "' data-type is '<invalid>', but model '",
                             model_.name(), "' expects '", tensor::ProtocolName(wanted.type), "'")));
  }

  base::Status ReadOutput(std::string_view message) {
    std::string_view name;
    std::optional<uint64_t> classes;
    WireReader reader(message);
    WireField field;
    while (reader.Next(&field)) {
      if (!field.Is(WireType::kBytes)) continue;
      if (field.number == 1) {
        if (!base::IsUtf8(field.bytes)) return MalformedMessage();
        name = field.bytes;
      }
      if (field.number == 2) STOKER_RETURN_IF_ERROR(ReadOutputParameter(field.bytes, &classes));
    }
    if (!reader.ok()) return MalformedMessage();
    call_.request->requested_outputs.push_back(name);
    if (!classes) return base::OkStatus();
    const int index = model_.FindOutput(name);
    if (index >= 0) call_.classifications.push_back({static_cast<size_t>(index), *classes});
    return base::OkStatus();
  }

  static base::Status ReadOutputParameter(std::string_view entry, std::optional<uint64_t>* classes) {
    STOKER_ASSIGN_OR_RETURN(const WireParameter parameter, ReadParameter(entry));
    if (parameter.key.starts_with("shared_memory_")) return NoSharedMemory();
    if (parameter.key != "classification") return base::OkStatus();
    const auto* number = parameter.value ? std::get_if<int64_t>(&*parameter.value) : nullptr;
    if (number == nullptr) return WrongParameterKind(parameter.key, "int64_param");
    if (*number <= 0) {
      return base::InvalidArgument(
          StrCat("invalid value for 'classification' parameter, expected >= 1, got ", *number));
    }
    *classes = static_cast<uint64_t>(*number);
    return base::OkStatus();
  }

  base::Status AssignRawContents() {
    auto& inputs = call_.request->inputs;
    if (envelope_.raw_contents < inputs.size()) return NoData(inputs[envelope_.raw_contents].name);
    if (envelope_.raw_contents > inputs.size()) {
      return base::InvalidArgument(StrCat("got ", envelope_.raw_contents, " raw_input_contents for ",
                                          inputs.size(), " inputs for model '", model_.name(),
                                          "'; each input takes one"));
    }
    const char* start = message_.text().data();
    WireReader reader(message_.text());
    WireField field;
    size_t next = 0;
    while (next < inputs.size() && reader.Next(&field)) {
      if (field.number != kRawContents || !field.Is(WireType::kBytes)) continue;
      inputs[next++].tensor.bytes =
          message_.Slice(static_cast<size_t>(field.bytes.data() - start), field.bytes.size());
    }
    return base::OkStatus();
  }

  base::Status ReadRequestParameters() {
    std::vector<WireParameter> parameters;
    parameters.reserve(envelope_.parameters);
    WireReader reader(message_.text());
    WireField field;
    while (reader.Next(&field)) {
      if (field.number != kParameters || !field.Is(WireType::kBytes)) continue;
      STOKER_ASSIGN_OR_RETURN(WireParameter parameter, ReadParameter(field.bytes));
      parameters.push_back(std::move(parameter));
    }
    KeepLastOfEachKey(&parameters);
    for (auto& parameter : parameters) STOKER_RETURN_IF_ERROR(Apply(std::move(parameter)));
    return base::OkStatus();
  }

  base::Status Apply(WireParameter parameter) {
    if (!parameter.value) {
      return WrongParameterKind(parameter.key,
                                "int64_param, bool_param, string_param, double_param or uint64_param");
    }
    auto& value = *parameter.value;
    if (parameter.key == kEmptyFinalResponse) {
      const bool* flag = std::get_if<bool>(&value);
      if (flag == nullptr) return WrongParameterKind(parameter.key, "bool_param");
      call_.empty_final_response = *flag;
      return base::OkStatus();
    }
    // Clients send unsigned ids through the signed field: -3 stands for 2^64 - 3.
    const auto* number = std::get_if<int64_t>(&value);
    if (parameter.key == "sequence_id" && number != nullptr) value = static_cast<uint64_t>(*number);
    return ApplyParameter(parameter.key, std::move(value), call_.request.get());
  }

  const InferEnvelope& envelope_;
  const host::Model& model_;
  const base::Bytes& message_;
  GrpcInferCall call_;
};

}  // namespace

base::Status MalformedMessage() { return base::Internal("Unable to parse request"); }

base::Result<InferEnvelope> ReadEnvelope(const base::Bytes& message) {
  InferEnvelope envelope;
  WireReader reader(message.text());
  WireField field;
  while (reader.Next(&field)) {
    if (!field.Is(WireType::kBytes)) continue;
    if (field.number <= kId && !base::IsUtf8(field.bytes)) return MalformedMessage();
    switch (field.number) {
      case kModelName:
        envelope.model_name = field.bytes;
        break;
      case kModelVersion:
        envelope.model_version = field.bytes;
        break;
      case kId:
        envelope.id = field.bytes;
        break;
      case kParameters:
        ++envelope.parameters;
        break;
      case kInputs:
        ++envelope.inputs;
        break;
      case kOutputs:
        ++envelope.outputs;
        break;
      case kRawContents:
        ++envelope.raw_contents;
        break;
      default:
        break;
    }
  }
  if (!reader.ok()) return MalformedMessage();
  return envelope;
}

base::Result<GrpcInferCall> ReadInfer(const InferEnvelope& envelope, const host::ModelRef& model,
                                      const base::Bytes& message, const DoorOptions& options) {
  if (envelope.inputs > options.tensors_max) return TooMany("inputs", envelope.inputs, options.tensors_max);
  if (envelope.outputs > options.tensors_max)
    return TooMany("outputs", envelope.outputs, options.tensors_max);
  if (envelope.parameters > options.parameters_max)
    return TooMany("parameters", envelope.parameters, options.parameters_max);
  return InferReader(envelope, model, message).Read();
}

}  // namespace stoker::serve
