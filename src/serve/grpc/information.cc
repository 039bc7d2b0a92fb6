#include "grpc/information.h"

#include <span>

#include <inference.pb.h>

#include <stoker/base/str_cat.h>
#include <stoker/host/host.h>

#include "grpc/messages.h"
#include "grpc/prepared_infer.h"

namespace stoker::serve {
namespace {

using Answer = base::Result<std::string>;

Answer FlagAnswer(bool value) {
  wire::Flag flag;
  flag.set_value(value);
  return SerialiseMessage(flag);
}

Answer HealthAnswer(const DoorContext& context) {
  wire::HealthCheckResponse response;
  response.set_status(context.host->ready() ? wire::HealthCheckResponse::SERVING
                                            : wire::HealthCheckResponse::NOT_SERVING);
  return SerialiseMessage(response);
}

Answer ReadinessAnswer(const DoorContext& context, const wire::ModelRequest& request) {
  const auto model = FindModel(*context.host, request.name(), request.version());
  if (!model.ok() && model.status().code() == base::StatusCode::kInvalidArgument) return model.status();
  return FlagAnswer(model.ok());
}

Answer ServerMetadataAnswer(const DoorOptions& options) {
  wire::ServerMetadataResponse response;
  response.set_name(options.server_id);
  response.set_version(options.server_version);
  for (const auto& extension : Extensions()) response.add_extensions(extension);
  return SerialiseMessage(response);
}

void FillTensors(std::span<const host::TensorInfo> tensors,
                 google::protobuf::RepeatedPtrField<wire::ModelMetadataResponse::TensorMetadata>* out) {
  for (const auto& info : tensors) {
    auto* tensor = out->Add();
    tensor->set_name(info.name);
    tensor->set_datatype(std::string(tensor::ProtocolName(info.type)));
    for (const int64_t dim : info.metadata_shape) tensor->add_shape(dim);
  }
}

Answer MetadataAnswer(const DoorContext& context, const wire::ModelRequest& request) {
  STOKER_ASSIGN_OR_RETURN(const auto model, FindModel(*context.host, request.name(), request.version()));
  wire::ModelMetadataResponse response;
  response.set_name(model->name());
  response.set_platform(model->platform());
  if (request.version().empty()) {
    for (const int64_t version : context.host->Versions(request.name()))
      response.add_versions(base::StrCat(version));
  } else {
    response.add_versions(base::StrCat(model->version()));
  }
  FillTensors(model->inputs(), response.mutable_inputs());
  FillTensors(model->outputs(), response.mutable_outputs());
  return SerialiseMessage(response);
}

Answer ConfigAnswer(const DoorContext& context, const wire::ModelRequest& request) {
  STOKER_ASSIGN_OR_RETURN(const auto model, FindModel(*context.host, request.name(), request.version()));
  wire::ModelConfigResponse response;
  response.set_config(model->config_message());
  return SerialiseMessage(response);
}

void Fill(const host::DurationStatistic& duration, wire::StatisticDuration* out) {
  out->set_count(duration.count);
  out->set_ns(duration.ns);
}

void FillStatistics(const host::ModelStatistics& model, wire::ModelStatistics* out) {
  out->set_name(model.name);
  out->set_version(model.version);
  out->set_last_inference(model.last_inference_ms);
  out->set_inference_count(model.inference_count);
  out->set_execution_count(model.execution_count);
  auto* infer = out->mutable_inference_stats();
  Fill(model.success, infer->mutable_success());
  Fill(model.fail, infer->mutable_fail());
  Fill(model.queue, infer->mutable_queue());
  Fill(model.compute_input, infer->mutable_compute_input());
  Fill(model.compute_infer, infer->mutable_compute_infer());
  Fill(model.compute_output, infer->mutable_compute_output());
  Fill(model.cache_hit, infer->mutable_cache_hit());
  Fill(model.cache_miss, infer->mutable_cache_miss());
  for (const auto& batch : model.batches) {
    auto* entry = out->add_batch_stats();
    entry->set_batch_size(batch.batch_size);
    Fill(batch.compute_input, entry->mutable_compute_input());
    Fill(batch.compute_infer, entry->mutable_compute_infer());
    Fill(batch.compute_output, entry->mutable_compute_output());
  }
}

Answer StatisticsAnswer(const DoorContext& context, const wire::ModelRequest& request) {
  const auto statistics = context.host->Statistics(request.name(), request.version());
  if (!statistics.ok()) return base::InvalidArgument(statistics.status().message());
  wire::ModelStatisticsResponse response;
  for (const auto& model : *statistics) FillStatistics(model, response.add_model_stats());
  return SerialiseMessage(response);
}

Answer IndexAnswer(const DoorContext& context, const wire::RepositoryIndexRequest& request) {
  if (!request.repository_name().empty()) {
    return base::Unimplemented("'repository_name' specification is not supported by this server");
  }
  wire::RepositoryIndexResponse response;
  for (const auto& entry : context.host->Index(request.ready())) {
    auto* model = response.add_models();
    model->set_name(entry.name);
    model->set_version(entry.version);
    model->set_state(entry.state);
    model->set_reason(entry.reason);
  }
  return SerialiseMessage(response);
}

template <typename Message, typename Answering>
Answer WithMessage(std::string_view bytes, Answering&& answering) {
  STOKER_ASSIGN_OR_RETURN(const Message message, ParseMessage<Message>(bytes));
  return answering(message);
}

}  // namespace

base::Result<std::string> AnswerInformation(const DoorContext& context, const DoorOptions& options,
                                            GrpcMethod method, std::string_view request) {
  using wire::ModelRequest;
  switch (method) {
    case GrpcMethod::kServerLive:
      return FlagAnswer(context.host->live());
    case GrpcMethod::kServerReady:
      return FlagAnswer(context.host->ready());
    case GrpcMethod::kHealthCheck:
      return HealthAnswer(context);
    case GrpcMethod::kServerMetadata:
      return ServerMetadataAnswer(options);
    case GrpcMethod::kModelReady:
      return WithMessage<ModelRequest>(request, [&](const auto& m) { return ReadinessAnswer(context, m); });
    case GrpcMethod::kModelMetadata:
      return WithMessage<ModelRequest>(request, [&](const auto& m) { return MetadataAnswer(context, m); });
    case GrpcMethod::kModelConfig:
      return WithMessage<ModelRequest>(request, [&](const auto& m) { return ConfigAnswer(context, m); });
    case GrpcMethod::kModelStatistics:
      return WithMessage<ModelRequest>(request, [&](const auto& m) { return StatisticsAnswer(context, m); });
    case GrpcMethod::kRepositoryIndex:
      return WithMessage<wire::RepositoryIndexRequest>(
          request, [&](const auto& m) { return IndexAnswer(context, m); });
    default:
      return base::Unimplemented("the method is not supported by this server");
  }
}

}  // namespace stoker::serve
