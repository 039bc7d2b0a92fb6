#pragma once

#include <string_view>

#include <stoker/net/http_message.h>
#include <stoker/net/http_server.h>
#include <stoker/serve/door.h>

namespace stoker::serve {

enum class HttpRoute : uint8_t {
  kServerMetadata,
  kServerLive,
  kServerReady,
  kModelMetadata,
  kModelReady,
  kModelConfig,
  kModelStatistics,
  kAllStatistics,
  kInfer,
  kGenerate,
  kGenerateStream,
  kRepositoryIndex,
  kModelLoad,
  kModelUnload,
  kNamedRepository,
  kModelTrace,
  kTrace,
  kLogging,
  kSharedMemory,
  kUnknown,
};

struct HttpRouteMatch {
  HttpRoute route = HttpRoute::kUnknown;
  std::string_view model, version;  // raw path segments
};

/// Finds the route of a raw path (nothing is decoded; a trailing or double slash matches nothing).
HttpRouteMatch MatchRoute(std::string_view path);

/// Whether the route takes that method.
bool RouteTakes(HttpRoute route, net::HttpMethod method);
ApiCategory CategoryOf(HttpRoute route);

}  // namespace stoker::serve
