// Aim: one record is one line whatever a request puts into it, and levels act. Method: a sink that
// collects lines; patterns written from the documented formats.
#include <stoker/observe/log.h>

#include <regex>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace stoker::observe {
namespace {

std::vector<std::string> Lines(LogSettings settings, const std::function<void(Log&)>& write) {
  std::vector<std::string> lines;
  const auto log =
      Log::ToFunction(std::move(settings), [&lines](std::string_view line) { lines.emplace_back(line); });
  write(*log);
  return lines;
}

TEST(LogTest, WritesTritonsDefaultFormat) {
  const auto lines = Lines({}, [](Log& log) { log.Info("loaded", {{"model", "m"}, {"ms", int64_t{12}}}); });
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_TRUE(
      std::regex_match(lines[0], std::regex(R"(I\d{4} \d\d:\d\d:\d\d\.\d{6} \d+ loaded model="m" ms=12\n)")))
      << lines[0];
}

TEST(LogTest, CannotBeForgedByContent) {
  const auto lines = Lines({}, [](Log& log) { log.Error("bad\nE0101 forged", {{"name", "x\"\r\ny"}}); });
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(std::count(lines[0].begin(), lines[0].end(), '\n'), 1);
  EXPECT_EQ(lines[0].find('\r'), std::string::npos);
}

TEST(LogTest, CutsOnlyHugeValues) {
  const std::string reason(4096, 'r');
  const auto lines = Lines({}, [&](Log& log) {
    log.Error("whole", {{"reason", reason}});
    log.Error("cut", {{"reason", reason + "x"}});
  });
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_TRUE(lines[0].ends_with("reason=\"" + reason + "\"\n"));
  EXPECT_TRUE(lines[1].ends_with("reason=\"" + reason + "…\"\n"));
}

TEST(LogTest, WritesJson) {
  LogSettings settings;
  settings.format = LogFormat::kJson;
  const auto lines = Lines(settings, [](Log& log) { log.Warning("a \"b\"", {{"n", 0.5}, {"ok", true}}); });
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_TRUE(std::regex_match(
      lines[0],
      std::regex(
          R"(\{"@timestamp":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z","level":"warning","message":"a \\"b\\"","n":0.5,"ok":true\}\n)")))
      << lines[0];
}

TEST(LogTest, LevelsActAtOnce) {
  LogSettings settings;
  settings.info = false;
  const auto lines = Lines(settings, [](Log& log) {
    log.Info("no");
    log.Write(LogLevel::kVerbose, "no");
    LogSettings next = log.settings();
    next.info = true;
    next.verbose_level = 2;
    EXPECT_TRUE(log.Apply(next).ok());
    log.Info("yes");
    EXPECT_TRUE(log.Enabled(LogLevel::kVerbose, 2));
    EXPECT_FALSE(log.Enabled(LogLevel::kVerbose, 3));
    next.file = "/tmp/elsewhere";
    EXPECT_EQ(log.Apply(next).code(), base::StatusCode::kInvalidArgument);
  });
  ASSERT_EQ(lines.size(), 1u);
}

TEST(LogTest, KeepsLinesWholeAcrossThreads) {
  std::vector<std::string> lines;
  const auto log = Log::ToFunction({}, [&lines](std::string_view line) { lines.emplace_back(line); });
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&log] {
      for (int i = 0; i < 500; ++i) log->Info("line", {{"i", int64_t{i}}});
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(lines.size(), 2000u);
}

TEST(LogTest, NamesTheFileThatCannotBeOpened) {
  LogSettings settings;
  settings.file = "/nonexistent/dir/log";
  const auto log = Log::Open(settings);
  ASSERT_FALSE(log.ok());
  EXPECT_NE(log.status().message().find("/nonexistent/dir/log"), std::string::npos);
}

}  // namespace
}  // namespace stoker::observe
