// Aim: raw paths find exactly the protocol's routes. Method: a table.
#include "http/routes.h"

#include <gtest/gtest.h>

namespace stoker::serve {
namespace {

TEST(RoutesTest, MatchesRawPaths) {
  struct Row {
    const char* path;
    HttpRoute route;
    const char* model;
    const char* version;
  };
  const Row rows[] = {
      {"/v2", HttpRoute::kServerMetadata, "", ""},
      {"/v2/", HttpRoute::kUnknown, "", ""},
      {"/v2/health/live", HttpRoute::kServerLive, "", ""},
      {"/v2/health/ready/", HttpRoute::kUnknown, "", ""},
      {"/v2//health/ready", HttpRoute::kUnknown, "", ""},
      {"/v2/models/stats", HttpRoute::kAllStatistics, "", ""},
      {"/v2/models/m", HttpRoute::kModelMetadata, "m", ""},
      {"/v2/models/m/versions/01", HttpRoute::kModelMetadata, "m", "01"},
      {"/v2/models/m/versions/x", HttpRoute::kUnknown, "", ""},
      {"/v2/models/m/versions", HttpRoute::kUnknown, "m", ""},
      {"/v2/models/m%5F/infer", HttpRoute::kInfer, "m%5F", ""},
      {"/v2/models/m/versions/3/infer", HttpRoute::kInfer, "m", "3"},
      {"/v2/models/m/versions/3/generate_stream", HttpRoute::kGenerateStream, "m", "3"},
      {"/v2/models/m/trace/setting", HttpRoute::kModelTrace, "m", ""},
      {"/v2/models/m/versions/1/trace/setting", HttpRoute::kUnknown, "m", "1"},
      {"/v2/models/versions/versions/1/ready", HttpRoute::kModelReady, "versions", "1"},
      {"/v2/repository/index", HttpRoute::kRepositoryIndex, "", ""},
      {"/v2/repository/models/m/load", HttpRoute::kModelLoad, "m", ""},
      {"/v2/repository/r/models/m/unload", HttpRoute::kNamedRepository, "m", ""},
      {"/v2/systemsharedmemory/status", HttpRoute::kSharedMemory, "", ""},
      {"/v2/cudasharedmemory/region/r/register", HttpRoute::kSharedMemory, "", ""},
      {"/v2/logging", HttpRoute::kLogging, "", ""},
      {"/v2/models/a/b/c/d/e/f/g/h/i", HttpRoute::kUnknown, "", ""},
      {"/", HttpRoute::kUnknown, "", ""},
      {"", HttpRoute::kUnknown, "", ""},
  };
  for (const auto& row : rows) {
    const HttpRouteMatch match = MatchRoute(row.path);
    EXPECT_EQ(match.route, row.route) << row.path;
    if (row.route == HttpRoute::kUnknown) continue;
    EXPECT_EQ(match.model, row.model) << row.path;
    EXPECT_EQ(match.version, row.version) << row.path;
  }
}

TEST(RoutesTest, KnowsMethods) {
  EXPECT_TRUE(RouteTakes(HttpRoute::kInfer, net::HttpMethod::kPost));
  EXPECT_FALSE(RouteTakes(HttpRoute::kInfer, net::HttpMethod::kGet));
  EXPECT_FALSE(RouteTakes(HttpRoute::kServerLive, net::HttpMethod::kHead));
  EXPECT_TRUE(RouteTakes(HttpRoute::kLogging, net::HttpMethod::kPost));
}

}  // namespace
}  // namespace stoker::serve
