#include "grpc/infer_writer.h"

#include <charconv>
#include <limits>
#include <memory>
#include <span>

#include <stoker/base/str_cat.h>
#include <stoker/base/utf8.h>

#include "grpc/wire.h"
#include "kserve/classification.h"

namespace stoker::serve {
namespace {

// ModelInferResponse.
constexpr uint32_t kModelName = 1;
constexpr uint32_t kModelVersion = 2;
constexpr uint32_t kId = 3;
constexpr uint32_t kParameters = 4;
constexpr uint32_t kOutputs = 5;
constexpr uint32_t kRawContents = 6;
// ModelStreamInferResponse.
constexpr uint32_t kErrorMessage = 1;
constexpr uint32_t kInferResponse = 2;

constexpr std::string_view kFinalResponse = "triton_final_response";
constexpr size_t kMessageBytesMax = std::numeric_limits<int32_t>::max();
constexpr size_t kCopiedTensorBytesMax = 1024;  // copying is cheaper than another part

struct Memory {
  std::shared_ptr<std::byte[]> bytes;  // shared with the network, which sends from it
  size_t size = 0;

  explicit Memory(size_t n) : bytes(std::make_shared_for_overwrite<std::byte[]>(n)), size(n) {}
  base::Bytes Part(const char* from, const char* to) const {
    const auto* start = reinterpret_cast<const std::byte*>(from);
    return {std::span(start, static_cast<size_t>(to - from)), bytes};
  }
};

size_t ValueSize(const host::ParameterValue& value) {
  if (std::holds_alternative<bool>(value)) return VarintFieldSize(1, 1);
  if (const auto* number = std::get_if<int64_t>(&value))
    return VarintFieldSize(2, static_cast<uint64_t>(*number));
  if (const auto* text = std::get_if<std::string>(&value)) return BytesFieldSize(3, text->size());
  if (std::holds_alternative<double>(value)) return TagSize(4) + sizeof(double);
  return VarintFieldSize(5, std::get<uint64_t>(value));
}

size_t EntrySize(std::string_view key, size_t value_size) {
  return BytesFieldSize(1, key.size()) + BytesFieldSize(2, value_size);
}

void WriteEntryHead(std::string_view key, size_t value_size, WireWriter* out) {
  out->BytesHead(kParameters, EntrySize(key, value_size));
  out->BytesField(1, key);
  out->BytesHead(2, value_size);
}

void WriteParameter(const host::Parameter& parameter, WireWriter* out) {
  const auto& value = parameter.value;
  WriteEntryHead(parameter.name, ValueSize(value), out);
  if (const auto* flag = std::get_if<bool>(&value)) out->VarintField(1, *flag ? 1 : 0);
  if (const auto* number = std::get_if<int64_t>(&value)) out->VarintField(2, static_cast<uint64_t>(*number));
  if (const auto* text = std::get_if<std::string>(&value)) out->BytesField(3, *text);
  if (const auto* number = std::get_if<double>(&value)) out->DoubleField(4, *number);
  if (const auto* number = std::get_if<uint64_t>(&value)) out->VarintField(5, *number);
}

size_t PackedSize(const tensor::Shape& shape) {
  size_t size = 0;
  for (const int64_t dim : shape) size += VarintSize(static_cast<uint64_t>(dim));
  return size;
}

/// Measures, then writes, one ModelInferResponse.
class ResponseWriter {
 public:
  ResponseWriter(const GrpcAnswerContext& context, const host::InferResponse& response)
      : context_(context), response_(response) {
    // The marker at the end of a stream has no version, as in Triton.
    if (!response.empty) {
      const auto [end, error] =
          std::to_chars(version_, version_ + sizeof(version_), context.model->version());
      if (error == std::errc()) version_size_ = static_cast<size_t>(end - version_);
    }
    Measure();
  }

  size_t message_size() const { return message_size_; }

  base::Result<std::vector<base::Bytes>> Write() {
    if (message_size_ > kMessageBytesMax) {
      return base::ResourceExhausted(base::StrCat("the answer takes ", message_size_,
                                                  " bytes, a protobuf message at most ", kMessageBytesMax));
    }
    std::vector<base::Bytes> parts;
    const bool one_piece = message_size_ <= kOnePieceBytesMax;
    const Memory memory(one_piece ? message_size_ : OwnSize());
    WireWriter out(memory.bytes.get());
    const char* from = out.at();
    WriteHead(&out);
    for (const auto& output : response_.outputs) {
      const auto& bytes = output.tensor.bytes;
      out.BytesHead(kRawContents, bytes.size());
      if (one_piece || Copied(bytes)) {
        out.Raw(bytes.text());
        continue;
      }
      parts.push_back(memory.Part(from, out.at()));
      parts.push_back(bytes);
      from = out.at();
    }
    if (from != out.at()) parts.push_back(memory.Part(from, out.at()));
    return parts;
  }

 private:
  static bool Copied(const base::Bytes& bytes) { return bytes.size() <= kCopiedTensorBytesMax; }
  std::string_view version() const { return {version_, version_size_}; }

  const host::TensorInfo& InfoOf(const host::InferOutput& output) const {
    return context_.model->outputs()[output.index];
  }

  size_t OutputSize(const host::InferOutput& output) const {
    const size_t shape = PackedSize(output.tensor.shape);
    return BytesFieldSize(1, InfoOf(output).name.size()) +
           BytesFieldSize(2, tensor::ProtocolName(output.tensor.type).size()) +
           (shape > 0 ? BytesFieldSize(3, shape) : 0);
  }

  static size_t TextSize(uint32_t number, std::string_view text) {
    return text.empty() ? 0 : BytesFieldSize(number, text.size());
  }

  void Measure() {
    size_t size = TextSize(kModelName, context_.model->name()) + TextSize(kModelVersion, version()) +
                  TextSize(kId, context_.id);
    for (const auto& parameter : response_.parameters) {
      size += BytesFieldSize(kParameters, EntrySize(parameter.name, ValueSize(parameter.value)));
    }
    if (context_.stream)
      size += BytesFieldSize(kParameters, EntrySize(kFinalResponse, VarintFieldSize(1, 1)));
    for (const auto& output : response_.outputs) {
      size += BytesFieldSize(kOutputs, OutputSize(output));
      size += BytesFieldSize(kRawContents, output.tensor.bytes.size());
    }
    response_size_ = size;
    message_size_ = context_.stream ? BytesFieldSize(kInferResponse, size) : size;
  }

  /// Without the tensors that are sent from where they lie.
  size_t OwnSize() const {
    size_t size = message_size_;
    for (const auto& output : response_.outputs) {
      if (!Copied(output.tensor.bytes)) size -= output.tensor.bytes.size();
    }
    return size;
  }

  static void Text(uint32_t number, std::string_view text, WireWriter* out) {
    if (!text.empty()) out->BytesField(number, text);
  }

  void WriteHead(WireWriter* out) const {
    if (context_.stream) out->BytesHead(kInferResponse, response_size_);
    Text(kModelName, context_.model->name(), out);
    Text(kModelVersion, version(), out);
    Text(kId, context_.id, out);
    for (const auto& parameter : response_.parameters) WriteParameter(parameter, out);
    if (context_.stream) {
      WriteEntryHead(kFinalResponse, VarintFieldSize(1, 1), out);
      out->VarintField(1, response_.final ? 1 : 0);
    }
    for (const auto& output : response_.outputs) {
      out->BytesHead(kOutputs, OutputSize(output));
      out->BytesField(1, InfoOf(output).name);
      out->BytesField(2, tensor::ProtocolName(output.tensor.type));
      const size_t shape = PackedSize(output.tensor.shape);
      if (shape == 0) continue;
      out->BytesHead(3, shape);
      for (const int64_t dim : output.tensor.shape) out->Varint(static_cast<uint64_t>(dim));
    }
  }

  const GrpcAnswerContext& context_;
  const host::InferResponse& response_;
  char version_[24];
  size_t version_size_ = 0;
  size_t response_size_ = 0;
  size_t message_size_ = 0;
};

uint64_t ClassesOf(const GrpcAnswerContext& context, size_t output) {
  for (const auto& wish : context.classifications) {
    if (wish.output == output) return wish.classes;
  }
  return 0;
}

base::Status ClassifyOutputs(const GrpcAnswerContext& context, host::InferResponse* response) {
  for (auto& output : response->outputs) {
    const uint64_t classes = ClassesOf(context, output.index);
    if (classes == 0) continue;
    const host::TensorInfo& info = context.model->outputs()[output.index];
    const ClassificationRequest request{info.name, classes, context.model->max_batch_size() > 0,
                                        context.classes_elements_max};
    STOKER_ASSIGN_OR_RETURN(output.tensor, Classify(output.tensor, info.labels, request));
  }
  return base::OkStatus();
}

/// Parameters are text in protobuf: what a model gives that is not UTF-8 is mended, or clients could not
/// read the message at all.
void MendText(std::string* text) {
  if (base::IsUtf8(*text)) return;
  std::string valid;
  base::AppendValidUtf8(&valid, *text);
  *text = std::move(valid);
}

}  // namespace

base::Result<std::vector<base::Bytes>> WriteInferResponse(const GrpcAnswerContext& context,
                                                          host::InferResponse response) {
  if (!context.classifications.empty()) STOKER_RETURN_IF_ERROR(ClassifyOutputs(context, &response));
  for (auto& parameter : response.parameters) {
    MendText(&parameter.name);
    if (auto* text = std::get_if<std::string>(&parameter.value)) MendText(text);
  }
  return ResponseWriter(context, response).Write();
}

std::vector<base::Bytes> WriteStreamError(std::string_view id, std::string_view message) {
  std::string text;
  base::AppendValidUtf8(&text, message);
  const size_t response = id.empty() ? 0 : BytesFieldSize(kId, id.size());
  const Memory memory(BytesFieldSize(kErrorMessage, text.size()) + BytesFieldSize(kInferResponse, response));
  WireWriter out(memory.bytes.get());
  const char* from = out.at();
  out.BytesField(kErrorMessage, text);
  out.BytesHead(kInferResponse, response);
  if (!id.empty()) out.BytesField(kId, id);
  std::vector<base::Bytes> parts;
  parts.push_back(memory.Part(from, out.at()));
  return parts;
}

size_t ClassificationBytes(const GrpcAnswerContext& context, const host::InferResponse& response) {
  size_t bytes = 0;
  for (const auto& output : response.outputs) {
    if (ClassesOf(context, output.index) > 0) bytes += output.tensor.bytes.size();
  }
  return bytes;
}

}  // namespace stoker::serve
