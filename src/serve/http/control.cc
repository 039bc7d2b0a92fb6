#include "http/control.h"

#include <limits>
#include <memory>

#include <stoker/base/base64.h>
#include <stoker/base/executor.h>
#include <stoker/base/json.h>
#include <stoker/base/str_cat.h>
#include <stoker/host/host.h>
#include <stoker/observe/log.h>

#include "http/infer_answer.h"
#include "kserve/log_settings.h"

namespace stoker::serve {
namespace {

using base::JsonKind;
using base::JsonValue;
using base::StrCat;

/// Of calls that say little and are read on the calling thread.
constexpr size_t kSmallBodyBytesMax = 64 << 10;

/// The body as an object; an empty body, or any root that is no object, is an empty object.
base::Result<JsonValue> ReadBody(const net::HttpRequest& request,
                                 size_t bytes_max = std::numeric_limits<size_t>::max()) {
  if (request.body.empty()) return JsonValue();
  if (request.body.size() > bytes_max) {
    return base::InvalidArgument(
        StrCat("the request body has ", request.body.size(), " bytes, this call takes at most ", bytes_max));
  }
  auto value = JsonValue::Parse(request.body.text());
  if (!value.ok())
    return base::Internal(StrCat("failed to parse the request JSON buffer: ", value.status().message()));
  return value;
}

net::HttpResponse Done() {
  net::HttpResponse answer;
  answer.content_type = "application/json";
  return answer;
}

/// Gives the outcome of a control call to its connection; shared because std::function must be copyable.
std::function<void(base::Status)> Reply(net::HttpResponder responder) {
  auto shared = std::make_shared<net::HttpResponder>(std::move(responder));
  return [shared](const base::Status& status) { shared->Send(status.ok() ? Done() : ErrorAnswer(status)); };
}

base::Result<host::LoadRequest> ReadLoadRequest(std::string_view model, const net::HttpRequest& request) {
  host::LoadRequest load;
  load.model = std::string(model);
  STOKER_ASSIGN_OR_RETURN(const JsonValue body, ReadBody(request));
  const JsonValue* parameters = body.Find("parameters");
  if (parameters == nullptr) return load;
  if (!parameters->is(JsonKind::kObject))
    return base::Internal("Unable to parse 'parameters': it must be an object");
  for (const auto& [name, value] : parameters->object()) {
    const bool is_file = name.starts_with("file:");
    if (name != "config" && !is_file) {
      return base::Internal(StrCat("unrecognized load parameter ", base::Quoted(name),
                                   "; 'config' and 'file:<version>/<path>' are known"));
    }
    if (!value.is(JsonKind::kString))
      return base::Internal(StrCat("load parameter ", base::Quoted(name), " must be a string"));
    if (!is_file) {
      load.config_json = value.string();
      continue;
    }
    auto content = base::DecodeBase64(value.string());
    if (!content.ok()) return content.status().WithContext(StrCat("load parameter ", base::Quoted(name)));
    load.files.emplace_back(name, base::Bytes::Own(std::move(content).value()));
  }
  return load;
}

LogSettingValue ValueOf(const JsonValue& value) {
  if (value.is(JsonKind::kBool)) return value.boolean();
  if (value.is(JsonKind::kString)) return value.string();
  if (value.is(JsonKind::kNumber)) {
    if (const auto number = value.integer()) return int64_t{*number};
  }
  return std::monostate();
}

std::string WriteLogSettings(const observe::LogSettings& settings) {
  std::string text;
  base::JsonWriter json(&text);
  json.BeginObject();
  json.Key("log_file").String(settings.file);
  json.Key("log_info").Bool(settings.info);
  json.Key("log_warning").Bool(settings.warning);
  json.Key("log_error").Bool(settings.error);
  json.Key("log_verbose_level").Uint(settings.verbose_level);
  json.Key("log_format").String(LogFormatName(settings.format));
  json.EndObject();
  return text;
}

net::HttpResponse Index(const DoorContext& context, const net::HttpRequest& request) {
  const auto body = ReadBody(request, kSmallBodyBytesMax);
  if (!body.ok()) return ErrorAnswer(body.status());
  bool ready_only = false;
  if (const JsonValue* ready = body->Find("ready")) {
    if (!ready->is(JsonKind::kBool))
      return ErrorAnswer(base::StatusCode::kInternal, "Unable to parse 'ready': it must be true or false");
    ready_only = ready->boolean();
  }
  std::string text;
  base::JsonWriter json(&text);
  json.BeginArray();
  for (const auto& entry : context.host->Index(ready_only)) {
    json.BeginObject();
    json.Key("name").String(entry.name);
    if (!entry.version.empty()) json.Key("version").String(entry.version);
    if (!entry.state.empty()) json.Key("state").String(entry.state);
    if (!entry.reason.empty()) json.Key("reason").String(entry.reason);
    json.EndObject();
  }
  json.EndArray();
  net::HttpResponse answer = Done();
  answer.body.push_back(base::Bytes::Own(std::move(text)));
  return answer;
}

}  // namespace

// The host looks at its folders for it, which may lie on a slow disk.
void RepositoryIndex(const DoorContext& context, net::HttpRequest request, net::HttpResponder responder) {
  struct Parcel {
    net::HttpRequest request;
    net::HttpResponder responder;
  };
  // Shared only because std::function must be copyable.
  auto parcel = std::make_shared<Parcel>(Parcel{std::move(request), std::move(responder)});
  const base::Status queued = context.executor->Submit(
      [&context, parcel] { parcel->responder.Send(Index(context, parcel->request)); });
  if (!queued.ok()) parcel->responder.Send(ErrorAnswer(base::StatusCode::kUnavailable, queued.message()));
}

void LoadModel(const DoorContext& context, const DoorOptions& options, std::string_view model,
               net::HttpRequest request, net::HttpResponder responder) {
  struct Parcel {
    std::string model;
    net::HttpRequest request;
    net::HttpResponder responder;
  };
  auto parcel =
      std::make_shared<Parcel>(Parcel{std::string(model), std::move(request), std::move(responder)});
  auto work = [&context, parcel] {
    auto load = ReadLoadRequest(parcel->model, parcel->request);
    if (!load.ok()) return parcel->responder.Send(ErrorAnswer(load.status()));
    context.host->Load(std::move(load).value(), Reply(std::move(parcel->responder)));
  };
  if (parcel->request.body.size() <= options.inline_body_bytes_max) return work();
  const base::Status queued = context.executor->Submit(work);
  if (!queued.ok()) parcel->responder.Send(ErrorAnswer(base::StatusCode::kUnavailable, queued.message()));
}

void UnloadModel(const DoorContext& context, std::string_view model, net::HttpRequest request,
                 net::HttpResponder responder) {
  const auto body = ReadBody(request, kSmallBodyBytesMax);
  if (!body.ok()) return responder.Send(ErrorAnswer(body.status()));
  bool dependents = false;
  if (const JsonValue* parameters = body->Find("parameters")) {
    if (const JsonValue* flag = parameters->Find("unload_dependents")) {
      if (!flag->is(JsonKind::kBool)) {
        return responder.Send(ErrorAnswer(base::StatusCode::kInternal,
                                          "Unable to parse 'unload_dependents': it must be true or false"));
      }
      dependents = flag->boolean();
    }
  }
  context.host->Unload(std::string(model), dependents, Reply(std::move(responder)));
}

net::HttpResponse LogSettings(const DoorContext& context, const net::HttpRequest& request) {
  if (request.method == net::HttpMethod::kPost) {
    const auto body = ReadBody(request, kSmallBodyBytesMax);
    if (!body.ok()) return ErrorAnswer(body.status());
    observe::LogSettings settings = context.log->settings();
    for (const auto& [name, value] : body->object()) {
      const base::Status status = ApplyLogSetting(name, ValueOf(value), &settings);
      // A value of the wrong kind is an internal error over HTTP, as in Triton.
      if (status.code() == base::StatusCode::kInvalidArgument)
        return ErrorAnswer(base::StatusCode::kInternal, status.message());
      if (!status.ok()) return ErrorAnswer(status);
    }
    const base::Status applied = context.log->Apply(settings);
    if (!applied.ok()) return ErrorAnswer(applied);
  }
  net::HttpResponse answer = Done();
  answer.body.push_back(base::Bytes::Own(WriteLogSettings(context.log->settings())));
  return answer;
}

}  // namespace stoker::serve
