#include "grpc/control.h"

#include <limits>
#include <utility>

#include <inference.pb.h>

#include <stoker/base/str_cat.h>
#include <stoker/host/host.h>
#include <stoker/observe/log.h>

#include "grpc/infer_parameters.h"
#include "grpc/messages.h"
#include "grpc/wire.h"
#include "kserve/log_settings.h"

namespace stoker::serve {
namespace {

using wire::ModelRepositoryParameter;

base::Status CheckRepository(const wire::RepositoryModelRequest& request) {
  if (request.repository_name().empty()) return base::OkStatus();
  return base::Unimplemented("'repository_name' specification is not supported by this server");
}

/// Counts before anything is allocated: parsed, a parameter takes many times its bytes.
base::Status CheckParameterCount(std::string_view bytes, size_t parameters_max) {
  constexpr uint32_t kParametersField = wire::RepositoryModelRequest::kParametersFieldNumber;
  size_t parameters = 0;
  WireReader reader(bytes);
  for (WireField field; reader.Next(&field);) parameters += field.number == kParametersField ? 1 : 0;
  if (!reader.ok()) return MalformedMessage();
  if (parameters <= parameters_max) return base::OkStatus();
  return base::ResourceExhausted(
      base::StrCat("the request has ", parameters, " parameters, at most ", parameters_max, " are taken"));
}

base::Result<host::LoadRequest> ReadLoadRequest(std::string_view bytes, size_t parameters_max) {
  STOKER_RETURN_IF_ERROR(CheckParameterCount(bytes, parameters_max));
  STOKER_ASSIGN_OR_RETURN(
      auto request, ParseMessage<wire::RepositoryModelRequest>(bytes, std::numeric_limits<int32_t>::max()));
  STOKER_RETURN_IF_ERROR(CheckRepository(request));
  host::LoadRequest load;
  load.model = request.model_name();
  for (auto& [name, value] : *request.mutable_parameters()) {
    const auto choice = value.parameter_choice_case();
    if (name == "config") {
      if (choice != ModelRepositoryParameter::kStringParam) return WrongParameterKind(name, "string_param");
      load.config_json = std::move(*value.mutable_string_param());
    } else if (name.starts_with("file:")) {
      if (choice != ModelRepositoryParameter::kBytesParam) return WrongParameterKind(name, "bytes_param");
      load.files.emplace_back(name, base::Bytes::Own(std::move(*value.mutable_bytes_param())));
    } else {
      return base::InvalidArgument(base::StrCat("unrecognized load parameter ", base::Quoted(name),
                                                "; 'config' and 'file:<version>/<path>' are known"));
    }
  }
  return load;
}

/// Load and unload answer with an empty message.
std::function<void(base::Status)> Done(MessageReply reply) {
  return [reply = std::move(reply)](const base::Status& status) {
    if (status.ok()) return reply(std::string());
    reply(status);
  };
}

LogSettingValue ValueOf(const wire::LogSettings::SettingValue& value) {
  switch (value.parameter_choice_case()) {
    case wire::LogSettings::SettingValue::kBoolParam:
      return value.bool_param();
    case wire::LogSettings::SettingValue::kUint32Param:
      return int64_t{value.uint32_param()};
    case wire::LogSettings::SettingValue::kStringParam:
      return value.string_param();
    default:
      return std::monostate();
  }
}

}  // namespace

void LoadModelByGrpc(const DoorContext& context, const DoorOptions& options, std::string_view request,
                     MessageReply reply) {
  auto load = ReadLoadRequest(request, options.parameters_max);
  if (!load.ok()) return reply(load.status());
  context.host->Load(std::move(load).value(), Done(std::move(reply)));
}

void UnloadModelByGrpc(const DoorContext& context, std::string_view bytes, MessageReply reply) {
  const auto request = ParseMessage<wire::RepositoryModelRequest>(bytes);
  if (!request.ok()) return reply(request.status());
  const base::Status repository = CheckRepository(*request);
  if (!repository.ok()) return reply(repository);
  bool dependents = false;
  const auto flag = request->parameters().find("unload_dependents");
  if (flag != request->parameters().end()) {
    if (flag->second.parameter_choice_case() != ModelRepositoryParameter::kBoolParam) {
      return reply(WrongParameterKind(flag->first, "bool_param"));
    }
    dependents = flag->second.bool_param();
  }
  context.host->Unload(request->model_name(), dependents, Done(std::move(reply)));
}

base::Result<std::string> AnswerLogSettings(const DoorContext& context, std::string_view request) {
  STOKER_ASSIGN_OR_RETURN(const auto wanted, ParseMessage<wire::LogSettings>(request));
  if (!wanted.settings().empty()) {
    observe::LogSettings settings = context.log->settings();
    for (const auto& [name, value] : wanted.settings()) {
      STOKER_RETURN_IF_ERROR(ApplyLogSetting(name, ValueOf(value), &settings));
    }
    STOKER_RETURN_IF_ERROR(context.log->Apply(settings));
  }
  const observe::LogSettings now = context.log->settings();
  wire::LogSettings response;
  auto& settings = *response.mutable_settings();
  settings["log_file"].set_string_param(now.file);
  settings["log_info"].set_bool_param(now.info);
  settings["log_warning"].set_bool_param(now.warning);
  settings["log_error"].set_bool_param(now.error);
  settings["log_verbose_level"].set_uint32_param(now.verbose_level);
  settings["log_format"].set_string_param(std::string(LogFormatName(now.format)));
  return SerialiseMessage(response);
}

}  // namespace stoker::serve
