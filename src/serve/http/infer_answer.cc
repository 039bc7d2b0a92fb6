#include "http/infer_answer.h"

#include <stoker/base/json.h>
#include <stoker/base/str_cat.h>

#include "http/json_tensor.h"
#include "kserve/classification.h"
#include "kserve/error_text.h"

namespace stoker::serve {
namespace {

constexpr std::string_view kJsonType = "application/json";
constexpr std::string_view kBinaryType = "application/octet-stream";

/// What was asked for one output of the model.
HttpAnswerForm::Output FormOf(const HttpAnswerForm& form, size_t index) {
  for (const auto& output : form.outputs) {
    if (output.index == static_cast<int>(index)) return output;
  }
  HttpAnswerForm::Output output;
  output.index = static_cast<int>(index);
  // The request-wide default acts only when no output is listed, as in Triton.
  output.binary = form.outputs.empty() && form.binary_default;
  return output;
}

void WriteParameters(const std::vector<host::Parameter>& parameters, base::JsonWriter* json) {
  if (parameters.empty()) return;
  json->Key("parameters").BeginObject();
  for (const auto& parameter : parameters) {
    json->Key(parameter.name);
    if (const auto* flag = std::get_if<bool>(&parameter.value)) json->Bool(*flag);
    if (const auto* number = std::get_if<int64_t>(&parameter.value)) json->Int(*number);
    if (const auto* number = std::get_if<uint64_t>(&parameter.value)) json->Uint(*number);
    if (const auto* number = std::get_if<double>(&parameter.value)) json->Double(*number);
    if (const auto* text = std::get_if<std::string>(&parameter.value)) json->String(*text);
  }
  json->EndObject();
}

void WriteHead(std::string_view name, const tensor::Tensor& tensor, base::JsonWriter* json) {
  json->Key("name").String(name);
  json->Key("datatype").String(tensor::ProtocolName(tensor.type));
  json->Key("shape").BeginArray();
  for (const int64_t dim : tensor.shape) json->Int(dim);
  json->EndArray();
}

/// Writes one output; a binary one's bytes go to `blocks`.
base::Status WriteOutput(const HttpAnswerContext& context, host::InferOutput output, base::JsonWriter* json,
                         std::vector<base::Bytes>* blocks) {
  const host::TensorInfo& info = context.model->outputs()[output.index];
  const HttpAnswerForm::Output form = FormOf(context.form, output.index);
  if (form.classes > 0) {
    const ClassificationRequest request{info.name, form.classes, context.model->max_batch_size() > 0,
                                        context.classes_elements_max};
    STOKER_ASSIGN_OR_RETURN(output.tensor, Classify(output.tensor, info.labels, request));
  }
  json->BeginObject();
  WriteHead(info.name, output.tensor, json);
  if (form.binary.value_or(false)) {
    json->Key("parameters")
        .BeginObject()
        .Key("binary_data_size")
        .Uint(output.tensor.bytes.size())
        .EndObject();
    blocks->push_back(std::move(output.tensor.bytes));
  } else {
    json->Key("data");
    STOKER_RETURN_IF_ERROR(WriteJsonTensor(info.name, output.tensor, json));
  }
  json->EndObject();
  return base::OkStatus();
}

void AddCoding(net::ContentCoding coding, net::HttpResponse* answer) {
  if (coding == net::ContentCoding::kIdentity) return;
  base::Bytes packed = net::Compress(coding, answer->body);
  answer->body.clear();
  answer->body.push_back(std::move(packed));
  answer->headers.emplace_back("Content-Encoding", coding == net::ContentCoding::kGzip ? "gzip" : "deflate");
}

}  // namespace

base::Result<net::HttpResponse> WriteInferAnswer(const HttpAnswerContext& context,
                                                 host::InferResponse response) {
  std::string head;
  head.reserve(256 + JsonTensorBytes(context, response) * 2);
  std::vector<base::Bytes> blocks;
  base::JsonWriter json(&head);
  json.BeginObject();
  if (!context.id.empty()) json.Key("id").String(context.id);
  json.Key("model_name").String(context.model->name());
  json.Key("model_version").String(base::StrCat(context.model->version()));
  WriteParameters(response.parameters, &json);
  json.Key("outputs").BeginArray();
  size_t block_bytes = 0;
  for (auto& output : response.outputs) {
    STOKER_RETURN_IF_ERROR(WriteOutput(context, std::move(output), &json, &blocks));
  }
  json.EndArray().EndObject();
  for (const auto& block : blocks) block_bytes += block.size();

  net::HttpResponse answer;
  answer.content_type = kJsonType;
  if (block_bytes > 0) {  // without a single binary byte the answer is plain JSON, as in Triton
    answer.content_type = kBinaryType;
    answer.headers.emplace_back("Inference-Header-Content-Length", base::StrCat(head.size()));
  }
  answer.body.reserve(1 + blocks.size());
  answer.body.push_back(base::Bytes::Own(std::move(head)));
  for (auto& block : blocks) {
    if (!block.empty()) answer.body.push_back(std::move(block));
  }
  AddCoding(context.coding, &answer);
  return answer;
}

size_t JsonTensorBytes(const HttpAnswerContext& context, const host::InferResponse& response) {
  size_t bytes = 0;
  for (const auto& output : response.outputs) {
    const auto form = FormOf(context.form, output.index);
    if (form.classes > 0 || !form.binary.value_or(false)) bytes += output.tensor.bytes.size();
  }
  return bytes;
}

net::HttpResponse ErrorAnswer(base::StatusCode code, std::string_view message) {
  net::HttpResponse answer;
  answer.status = HttpStatusOf(code);
  answer.content_type = kJsonType;
  std::string text = "{\"error\":";
  base::AppendJsonString(&text, message);
  text += '}';
  answer.body.push_back(base::Bytes::Own(std::move(text)));
  return answer;
}

}  // namespace stoker::serve
