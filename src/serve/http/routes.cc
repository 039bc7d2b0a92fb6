#include "http/routes.h"

#include <algorithm>
#include <array>

namespace stoker::serve {
namespace {

constexpr size_t kSegmentsMax = 8;

struct Segments {
  std::array<std::string_view, kSegmentsMax> at;
  size_t count = 0;
};

/// Splits "/a/b"; a path with an empty segment or too many has count 0.
Segments Split(std::string_view path) {
  Segments out;
  if (path.empty() || path.front() != '/') return {};
  path.remove_prefix(1);
  for (;;) {
    const size_t slash = path.find('/');
    const std::string_view segment = path.substr(0, slash);
    if (segment.empty() || out.count == kSegmentsMax) return {};
    out.at[out.count++] = segment;
    if (slash == std::string_view::npos) return out;
    path.remove_prefix(slash + 1);
  }
}

bool IsDigits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

HttpRoute ModelAction(std::string_view action) {
  if (action == "infer") return HttpRoute::kInfer;
  if (action == "ready") return HttpRoute::kModelReady;
  if (action == "config") return HttpRoute::kModelConfig;
  if (action == "stats") return HttpRoute::kModelStatistics;
  if (action == "generate") return HttpRoute::kGenerate;
  if (action == "generate_stream") return HttpRoute::kGenerateStream;
  return HttpRoute::kUnknown;
}

/// /v2/models/…
HttpRouteMatch MatchModels(const Segments& s) {
  if (s.count == 3 && s.at[2] == "stats") return {HttpRoute::kAllStatistics, {}, {}};
  HttpRouteMatch match{HttpRoute::kUnknown, s.at[2], {}};
  size_t next = 3;
  if (s.count > 4 && s.at[3] == "versions") {
    if (!IsDigits(s.at[4])) return {};
    match.version = s.at[4];
    next = 5;
  }
  const size_t left = s.count - next;
  if (left == 0) match.route = HttpRoute::kModelMetadata;
  if (left == 1) match.route = ModelAction(s.at[next]);
  if (left == 2 && s.at[next] == "trace" && s.at[next + 1] == "setting" && match.version.empty())
    match.route = HttpRoute::kModelTrace;
  return match;
}

/// /v2/repository/…
HttpRouteMatch MatchRepository(const Segments& s) {
  if (s.count == 3 && s.at[2] == "index") return {HttpRoute::kRepositoryIndex, {}, {}};
  const bool load = s.at[s.count - 1] == "load";
  if (!load && s.at[s.count - 1] != "unload") {
    return s.count == 4 && s.at[3] == "index" ? HttpRouteMatch{HttpRoute::kNamedRepository, {}, {}}
                                              : HttpRouteMatch{};
  }
  if (s.count == 5 && s.at[2] == "models")
    return {load ? HttpRoute::kModelLoad : HttpRoute::kModelUnload, s.at[3], {}};
  if (s.count == 6 && s.at[3] == "models") return {HttpRoute::kNamedRepository, s.at[4], {}};
  return {};
}

bool IsSharedMemory(const Segments& s) {
  if (s.at[1] != "systemsharedmemory" && s.at[1] != "cudasharedmemory") return false;
  const bool region = s.count == 5 && s.at[2] == "region";
  if (!region && s.count != 3) return false;
  const std::string_view action = s.at[s.count - 1];
  return action == "status" || action == "unregister" || (region && action == "register");
}

}  // namespace

HttpRouteMatch MatchRoute(std::string_view path) {
  const Segments s = Split(path);
  if (s.count == 0 || s.at[0] != "v2") return {};
  if (s.count == 1) return {HttpRoute::kServerMetadata, {}, {}};
  if (s.at[1] == "models" && s.count >= 3) return MatchModels(s);
  if (s.at[1] == "health" && s.count == 3) {
    if (s.at[2] == "live") return {HttpRoute::kServerLive, {}, {}};
    if (s.at[2] == "ready") return {HttpRoute::kServerReady, {}, {}};
  }
  if (s.at[1] == "repository" && s.count >= 3) return MatchRepository(s);
  if (s.at[1] == "logging" && s.count == 2) return {HttpRoute::kLogging, {}, {}};
  if (s.at[1] == "trace" && s.count == 3 && s.at[2] == "setting") return {HttpRoute::kTrace, {}, {}};
  if (s.count >= 3 && IsSharedMemory(s)) return {HttpRoute::kSharedMemory, {}, {}};
  return {};
}

bool RouteTakes(HttpRoute route, net::HttpMethod method) {
  switch (route) {
    case HttpRoute::kInfer:
    case HttpRoute::kGenerate:
    case HttpRoute::kGenerateStream:
    case HttpRoute::kRepositoryIndex:
    case HttpRoute::kModelLoad:
    case HttpRoute::kModelUnload:
    case HttpRoute::kNamedRepository:
      return method == net::HttpMethod::kPost;
    case HttpRoute::kLogging:
    case HttpRoute::kTrace:
    case HttpRoute::kModelTrace:
    case HttpRoute::kSharedMemory:
      return method == net::HttpMethod::kGet || method == net::HttpMethod::kPost;
    default:
      return method == net::HttpMethod::kGet;
  }
}

ApiCategory CategoryOf(HttpRoute route) {
  switch (route) {
    case HttpRoute::kServerLive:
    case HttpRoute::kServerReady:
    case HttpRoute::kModelReady:
      return ApiCategory::kHealth;
    case HttpRoute::kModelConfig:
      return ApiCategory::kModelConfig;
    case HttpRoute::kModelStatistics:
    case HttpRoute::kAllStatistics:
      return ApiCategory::kStatistics;
    case HttpRoute::kInfer:
    case HttpRoute::kGenerate:
    case HttpRoute::kGenerateStream:
      return ApiCategory::kInference;
    case HttpRoute::kRepositoryIndex:
    case HttpRoute::kModelLoad:
    case HttpRoute::kModelUnload:
    case HttpRoute::kNamedRepository:
      return ApiCategory::kModelRepository;
    case HttpRoute::kTrace:
    case HttpRoute::kModelTrace:
      return ApiCategory::kTrace;
    case HttpRoute::kLogging:
      return ApiCategory::kLogging;
    case HttpRoute::kSharedMemory:
      return ApiCategory::kSharedMemory;
    default:
      return ApiCategory::kMetadata;
  }
}

}  // namespace stoker::serve
