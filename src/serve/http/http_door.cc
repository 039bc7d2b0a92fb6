#include <stoker/serve/http_door.h>

#include <stoker/base/clock.h>
#include <stoker/base/memory_budget.h>
#include <stoker/base/str_cat.h>
#include <stoker/host/host.h>
#include <stoker/observe/log.h>
#include <stoker/observe/metrics.h>

#include "http/control.h"
#include "http/infer.h"
#include "http/infer_answer.h"
#include "http/information.h"
#include "http/routes.h"
#include "kserve/authorisation.h"

namespace stoker::serve {
namespace {

net::HttpResponse StatusAnswer(int status, std::string_view message) {
  net::HttpResponse answer = ErrorAnswer(base::StatusCode::kInvalidArgument, message);
  answer.status = status;
  return answer;
}

net::HttpResponse NotSupported(std::string_view what) {
  return ErrorAnswer(base::StatusCode::kUnimplemented,
                     base::StrCat(what, " is not supported by this server"));
}

}  // namespace

struct HttpDoor::State {
  DoorContext context;
  DoorOptions options;

  void Dispatch(const HttpRouteMatch& match, net::HttpRequest request, net::HttpResponder responder) {
    switch (match.route) {
      case HttpRoute::kInfer:
        return HandleInfer(context, options, match, std::move(request), std::move(responder));
      case HttpRoute::kRepositoryIndex:
        return RepositoryIndex(context, std::move(request), std::move(responder));
      case HttpRoute::kModelLoad:
        return LoadModel(context, options, match.model, std::move(request), std::move(responder));
      case HttpRoute::kModelUnload:
        return UnloadModel(context, match.model, std::move(request), std::move(responder));
      default:
        return responder.Send(Answer(match, request));
    }
  }

  net::HttpResponse Answer(const HttpRouteMatch& match, const net::HttpRequest& request) {
    switch (match.route) {
      case HttpRoute::kServerMetadata:
        return ServerMetadata(options);
      case HttpRoute::kServerLive:
        return ServerHealth(context, false);
      case HttpRoute::kServerReady:
        return ServerHealth(context, true);
      case HttpRoute::kModelMetadata:
        return ModelMetadata(context, match);
      case HttpRoute::kModelReady:
        return ModelReadiness(context, match);
      case HttpRoute::kModelConfig:
        return ModelConfiguration(context, match);
      case HttpRoute::kModelStatistics:
      case HttpRoute::kAllStatistics:
        return Statistics(context, match);
      case HttpRoute::kLogging:
        return LogSettings(context, request);
      case HttpRoute::kNamedRepository:
        return NotSupported("naming a repository");
      case HttpRoute::kTrace:
      case HttpRoute::kModelTrace:
        return NotSupported("the trace extension");
      case HttpRoute::kSharedMemory:
        return NotSupported("the shared memory extension");
      case HttpRoute::kGenerate:
      case HttpRoute::kGenerateStream:
        return NotSupported("the generate extension");
      default:
        return StatusAnswer(404, "Not Found");
    }
  }
};

HttpDoor::HttpDoor(DoorContext context, DoorOptions options) {
  if (context.unpacked == nullptr) {
    context.unpacked =
        std::make_shared<base::MemoryBudget>("decompressed request bodies", options.unpacked_bytes_max);
  }
  state_ = std::make_unique<State>(State{std::move(context), std::move(options)});
}
HttpDoor::~HttpDoor() = default;

void HttpDoor::Handle(net::HttpRequest request, net::HttpResponder responder) {
  const HttpRouteMatch match = MatchRoute(request.path);
  if (state_->options.access_log) {
    state_->context.log->Info(
        "request",
        {{"path", request.path}, {"peer", request.peer}, {"bytes", uint64_t{request.body.size()}}});
  }
  if (match.route == HttpRoute::kUnknown) return responder.Send(StatusAnswer(404, "Not Found"));
  if (!RouteTakes(match.route, request.method))
    return responder.Send(StatusAnswer(405, "Method Not Allowed"));
  const base::Status allowed = Authorise(CategoryOf(match.route));
  if (!allowed.ok()) return responder.Send(ErrorAnswer(allowed));
  state_->Dispatch(match, std::move(request), std::move(responder));
}

void MetricsDoor::Handle(net::HttpRequest request, net::HttpResponder responder) {
  if (request.method != net::HttpMethod::kGet) return responder.Send(StatusAnswer(405, "Method Not Allowed"));
  // As Triton's: probes that ask this port for anything else get an empty 200.
  if (request.path != "/metrics") return responder.Send({.content_type = "text/plain"});
  const observe::TextFormat format = observe::NegotiateFormat(request.Header("accept"));
  net::HttpResponse answer;
  answer.content_type = observe::ContentType(format);
  answer.body.push_back(base::Bytes::Own(context_.metrics->Render(format)));
  if (net::ChooseCoding(request.Header("accept-encoding")) == net::ContentCoding::kGzip) {
    base::Bytes packed = net::Compress(net::ContentCoding::kGzip, answer.body);
    answer.body = {std::move(packed)};
    answer.headers.emplace_back("Content-Encoding", "gzip");
  }
  responder.Send(std::move(answer));
}

}  // namespace stoker::serve
