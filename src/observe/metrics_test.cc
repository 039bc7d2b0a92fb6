// Aim: sums are exact under concurrency and the two text formats are what their specifications say.
// Method: golden text (written from the specifications) and arithmetic over many threads.
#include <stoker/observe/metrics.h>

#include <thread>

#include <gtest/gtest.h>

namespace stoker::observe {
namespace {

TEST(CounterTest, LosesNothingAcrossThreads) {
  Counter counter;
  std::vector<std::thread> threads;
  for (int t = 0; t < 12; ++t) {
    threads.emplace_back([&counter] {
      for (int i = 0; i < 10'000; ++i) counter.Add(3);
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(counter.Value(), 360'000u);
}

TEST(HistogramTest, PutsABoundIntoItsOwnBucket) {
  Histogram histogram({1, 2, 4});
  for (const double value : {0.5, 1.0, 1.5, 4.0, 9.0}) histogram.Observe(value);
  const auto snapshot = histogram.Read();
  EXPECT_EQ(snapshot.cumulative, (std::vector<uint64_t>{2, 3, 4, 5}));
  EXPECT_EQ(snapshot.count, 5u);
  EXPECT_DOUBLE_EQ(snapshot.sum, 16.0);
}

TEST(HistogramTest, CountEqualsInfBucketUnderConcurrency) {
  Histogram histogram(Histogram::Exponential(0.001, 2, 10));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&histogram, t] {
      for (int i = 0; i < 5'000; ++i) histogram.Observe(0.0005 * (i % 100) * (t + 1));
    });
  }
  for (int i = 0; i < 100; ++i) {
    const auto snapshot = histogram.Read();
    ASSERT_EQ(snapshot.count, snapshot.cumulative.back());
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(histogram.Read().count, 20'000u);
}

class RegistryTest : public ::testing::Test {
 protected:
  RegistryTest() {
    registry_.Declare("nv_inference_count", MetricType::kCounter,
                      "Number of inferences\nper \"model\" \\ version");
    registry_.Declare("stoker_things_total", MetricType::kCounter, "Things");
    registry_.Declare("stoker_wait_seconds", MetricType::kHistogram, "Waiting");
    registry_.Declare("stoker_depth", MetricType::kGauge, "Depth");
    count_ = registry_.AddCounter("nv_inference_count", {{"model", "a\"b\\c\nd"}, {"version", "1"}});
    count_->Add(7);
    things_ = registry_.AddCounter("stoker_things_total", {});
    wait_ = registry_.AddHistogram("stoker_wait_seconds", {{"model", "m"}}, {0.25, 1, 1e6});
    wait_->Observe(0.5);
    depth_ = registry_.AddCallback("stoker_depth", {}, [] { return 2.5; });
  }

  Registry registry_;
  std::shared_ptr<Counter> count_, things_;
  std::shared_ptr<Histogram> wait_;
  std::shared_ptr<void> depth_;
};

TEST_F(RegistryTest, RendersPrometheusText) {
  EXPECT_EQ(registry_.Render(TextFormat::kPrometheus004),
            "# HELP nv_inference_count Number of inferences\\nper \"model\" \\\\ version\n"
            "# TYPE nv_inference_count counter\n"
            "nv_inference_count{model=\"a\\\"b\\\\c\\nd\",version=\"1\"} 7\n"
            "# HELP stoker_depth Depth\n# TYPE stoker_depth gauge\nstoker_depth 2.5\n"
            "# HELP stoker_things_total Things\n# TYPE stoker_things_total counter\nstoker_things_total 0\n"
            "# HELP stoker_wait_seconds Waiting\n# TYPE stoker_wait_seconds histogram\n"
            "stoker_wait_seconds_bucket{model=\"m\",le=\"0.25\"} 0\n"
            "stoker_wait_seconds_bucket{model=\"m\",le=\"1.0\"} 1\n"
            "stoker_wait_seconds_bucket{model=\"m\",le=\"1e+06\"} 1\n"
            "stoker_wait_seconds_bucket{model=\"m\",le=\"+Inf\"} 1\n"
            "stoker_wait_seconds_sum{model=\"m\"} 0.5\n"
            "stoker_wait_seconds_count{model=\"m\"} 1\n");
}

TEST_F(RegistryTest, RendersOpenMetricsWithoutSuffixInDescriptors) {
  const std::string text = registry_.Render(TextFormat::kOpenMetrics100);
  EXPECT_NE(text.find("# TYPE stoker_things counter\nstoker_things_total 0\n"), std::string::npos);
  EXPECT_NE(text.find("# TYPE nv_inference_count unknown\n"), std::string::npos);
  EXPECT_NE(text.find("\\nper \\\"model\\\""), std::string::npos);
  EXPECT_TRUE(text.ends_with("# EOF\n"));
  EXPECT_EQ(text.find("\n\n"), std::string::npos);
}

TEST_F(RegistryTest, GivesOneSeriesForEqualLabels) {
  EXPECT_EQ(registry_.AddCounter("stoker_things_total", {}), things_);
  EXPECT_EQ(registry_.series(), 4u);
}

TEST_F(RegistryTest, ForgetsSeriesWhoseHandleIsGone) {
  count_.reset();
  depth_.reset();
  const std::string text = registry_.Render(TextFormat::kPrometheus004);
  EXPECT_EQ(text.find("nv_inference_count{"), std::string::npos);
  EXPECT_EQ(text.find("stoker_depth 2.5"), std::string::npos);
  EXPECT_EQ(registry_.series(), 2u);
}

TEST_F(RegistryTest, BoundsTheSeriesOfAFamily) {
  std::vector<std::shared_ptr<Counter>> held;
  for (int i = 0; i < 10'100; ++i)
    held.push_back(registry_.AddCounter("stoker_things_total", {{"i", std::to_string(i)}}));
  EXPECT_LE(registry_.series(), 10'001u + 3u);
  EXPECT_EQ(held[10'050], held[10'099]);
}

TEST(NegotiationTest, FollowsQualityAndVersion) {
  const auto open = TextFormat::kOpenMetrics100;
  const auto text = TextFormat::kPrometheus004;
  EXPECT_EQ(
      NegotiateFormat(
          "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
          "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"),
      open);
  EXPECT_EQ(NegotiateFormat(""), text);
  EXPECT_EQ(NegotiateFormat("*/*"), text);
  EXPECT_EQ(NegotiateFormat("application/json"), text);
  EXPECT_EQ(NegotiateFormat("text/plain, application/openmetrics-text; version=1.0.0; q=0.2"), text);
  EXPECT_EQ(NegotiateFormat("application/openmetrics-text; version=9.9"), text);
  EXPECT_EQ(NegotiateFormat(
                "application/openmetrics-text; version=1.0.0; escaping=allow-utf-8; q=0.6, text/plain;q=0.3"),
            open);
}

}  // namespace
}  // namespace stoker::observe
