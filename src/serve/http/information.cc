#include "http/information.h"

#include <stoker/base/json.h>
#include <stoker/base/str_cat.h>
#include <stoker/host/host.h>

#include "http/infer_answer.h"

namespace stoker::serve {
namespace {

net::HttpResponse JsonAnswer(std::string json) {
  net::HttpResponse answer;
  answer.content_type = "application/json";
  answer.body.push_back(base::Bytes::Own(std::move(json)));
  return answer;
}

net::HttpResponse EmptyAnswer(int status) {
  net::HttpResponse answer;
  answer.status = status;
  answer.content_type = "text/plain";
  return answer;
}

void WriteTensors(std::string_view key, std::span<const host::TensorInfo> tensors, base::JsonWriter* json) {
  json->Key(key).BeginArray();
  for (const auto& info : tensors) {
    json->BeginObject();
    json->Key("name").String(info.name);
    json->Key("datatype").String(tensor::ProtocolName(info.type));
    json->Key("shape").BeginArray();
    for (const int64_t dim : info.metadata_shape) json->Int(dim);
    json->EndArray().EndObject();
  }
  json->EndArray();
}

void WriteDuration(std::string_view key, const host::DurationStatistic& duration, base::JsonWriter* json) {
  json->Key(key).BeginObject();
  json->Key("count").Uint(duration.count);
  json->Key("ns").Uint(duration.ns);
  json->EndObject();
}

void WriteStatistics(const host::ModelStatistics& model, base::JsonWriter* json) {
  json->BeginObject();
  json->Key("name").String(model.name);
  json->Key("version").String(model.version);
  json->Key("last_inference").Uint(model.last_inference_ms);
  json->Key("inference_count").Uint(model.inference_count);
  json->Key("execution_count").Uint(model.execution_count);
  json->Key("inference_stats").BeginObject();
  WriteDuration("success", model.success, json);
  WriteDuration("fail", model.fail, json);
  WriteDuration("queue", model.queue, json);
  WriteDuration("compute_input", model.compute_input, json);
  WriteDuration("compute_infer", model.compute_infer, json);
  WriteDuration("compute_output", model.compute_output, json);
  WriteDuration("cache_hit", model.cache_hit, json);
  WriteDuration("cache_miss", model.cache_miss, json);
  json->EndObject();
  json->Key("response_stats").BeginObject().EndObject();
  json->Key("batch_stats").BeginArray();
  for (const auto& batch : model.batches) {
    json->BeginObject();
    json->Key("batch_size").Uint(batch.batch_size);
    WriteDuration("compute_input", batch.compute_input, json);
    WriteDuration("compute_infer", batch.compute_infer, json);
    WriteDuration("compute_output", batch.compute_output, json);
    json->EndObject();
  }
  json->EndArray();
  json->Key("memory_usage").BeginArray().EndArray();
  json->EndObject();
}

}  // namespace

net::HttpResponse ServerHealth(const DoorContext& context, bool readiness) {
  if (!context.host->live()) return EmptyAnswer(503);
  return EmptyAnswer(!readiness || context.host->ready() ? 200 : 400);
}

net::HttpResponse ModelReadiness(const DoorContext& context, const HttpRouteMatch& match) {
  const auto model = context.host->Find(match.model, match.version);
  if (model.ok()) return EmptyAnswer(200);
  return ErrorAnswer(base::StatusCode::kInvalidArgument, "Model version not ready");
}

net::HttpResponse ServerMetadata(const DoorOptions& options) {
  std::string text;
  base::JsonWriter json(&text);
  json.BeginObject();
  json.Key("name").String(options.server_id);
  json.Key("version").String(options.server_version);
  json.Key("extensions").BeginArray();
  for (const auto& extension : Extensions()) json.String(extension);
  json.EndArray().EndObject();
  return JsonAnswer(std::move(text));
}

net::HttpResponse ModelMetadata(const DoorContext& context, const HttpRouteMatch& match) {
  const auto model = context.host->Find(match.model, match.version);
  if (!model.ok()) return ErrorAnswer(model.status());
  std::string text;
  base::JsonWriter json(&text);
  json.BeginObject();
  json.Key("name").String((*model)->name());
  json.Key("versions").BeginArray();
  if (match.version.empty()) {
    for (const int64_t version : context.host->Versions(match.model)) json.String(base::StrCat(version));
  } else {
    json.String(base::StrCat((*model)->version()));
  }
  json.EndArray();
  json.Key("platform").String((*model)->platform());
  WriteTensors("inputs", (*model)->inputs(), &json);
  WriteTensors("outputs", (*model)->outputs(), &json);
  json.EndObject();
  return JsonAnswer(std::move(text));
}

net::HttpResponse ModelConfiguration(const DoorContext& context, const HttpRouteMatch& match) {
  const auto model = context.host->Find(match.model, match.version);
  if (!model.ok()) return ErrorAnswer(model.status());
  return JsonAnswer((*model)->config_json());
}

net::HttpResponse Statistics(const DoorContext& context, const HttpRouteMatch& match) {
  const auto statistics = context.host->Statistics(match.model, match.version);
  if (!statistics.ok()) return ErrorAnswer(base::StatusCode::kInvalidArgument, statistics.status().message());
  std::string text;
  base::JsonWriter json(&text);
  json.BeginObject();
  json.Key("model_stats").BeginArray();
  for (const auto& model : *statistics) WriteStatistics(model, &json);
  json.EndArray().EndObject();
  return JsonAnswer(std::move(text));
}

}  // namespace stoker::serve
