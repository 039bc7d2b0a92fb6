// Aim: counts are exact and the series carry Triton's names. Method: known loads by one and by many
// threads, figures worked out by hand.
#include <gtest/gtest.h>

#include <stoker/base/str_cat.h>
#include <stoker/base/thread.h>

#include "version_statistics.h"

namespace stoker::host {
namespace {

class StatisticsTest : public ::testing::Test {
 protected:
  StatisticsTest() { VersionStatistics::DeclareFamilies(&registry_); }
  std::unique_ptr<VersionStatistics> Make(int64_t max_batch_size, bool latencies = true) {
    return std::make_unique<VersionStatistics>(StatisticsOptions{.model = "m",
                                                                 .version = "3",
                                                                 .metric_tags = {{"team", "red"}},
                                                                 .max_batch_size = max_batch_size,
                                                                 .latency_counters = latencies},
                                               &base::Clock::Real(), &registry_);
  }
  void Expect(const std::string& line) {
    const std::string text = registry_.Render(observe::TextFormat::kPrometheus004);
    EXPECT_NE(text.find("\n" + line + "\n"), std::string::npos) << line << "\nnot in\n" << text;
  }
  observe::Registry registry_;
};

constexpr RequestTimes kTimes{
    .total_ns = 10'000, .steps = {.queue_ns = 1'000, .input_ns = 2'000, .infer_ns = 3'000, .output_ns = 500}};

TEST_F(StatisticsTest, AddsUpOverThreads) {
  const auto statistics = Make(8);
  {
    std::vector<base::Thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back("count", [&statistics] {
        for (int i = 0; i < 10'000; ++i) {
          statistics->RecordSuccess(2, kTimes);
          statistics->RecordExecution({.rows = 1 + i % 2, .input_ns = 1, .infer_ns = 2, .output_ns = 3},
                                      1'000'000);
        }
        statistics->RecordFailure(FailureReason::kBackend, 7);
      });
    }
  }
  const ModelStatistics read = statistics->Read();
  EXPECT_EQ(read.name, "m");
  EXPECT_EQ(read.version, "3");
  EXPECT_EQ(read.success.count, 40'000u);
  EXPECT_EQ(read.success.ns, 400'000'000u);
  EXPECT_EQ(read.queue.count, 40'000u);
  EXPECT_EQ(read.queue.ns, 40'000'000u);
  EXPECT_EQ(read.compute_input.ns, 80'000'000u);
  EXPECT_EQ(read.compute_infer.ns, 120'000'000u);
  EXPECT_EQ(read.compute_output.ns, 20'000'000u);
  EXPECT_EQ(read.inference_count, 80'000u);
  EXPECT_EQ(read.execution_count, 40'000u);
  EXPECT_EQ(read.fail.count, 4u);
  EXPECT_EQ(read.fail.ns, 28u);
  ASSERT_EQ(read.batches.size(), 2u);
  EXPECT_EQ(read.batches[0].batch_size, 1u);
  EXPECT_EQ(read.batches[1].batch_size, 2u);
  EXPECT_EQ(read.batches[1].compute_infer.count, 20'000u);
  EXPECT_EQ(read.batches[1].compute_infer.ns, 40'000u);
  EXPECT_EQ(read.batches[1].compute_output.ns, 60'000u);
  EXPECT_GT(read.last_inference_ms, 0u);
}

TEST_F(StatisticsTest, SeriesHaveTritonsNamesAndLabels) {
  const auto statistics = Make(0);
  Expect(R"(nv_inference_request_failure{model="m",version="3",_team="red",reason="OTHER"} 0)");
  statistics->RecordSuccess(1, kTimes);
  statistics->RecordFailure(FailureReason::kRejected, 5);
  statistics->RecordExecution({.rows = 1, .infer_ns = 3'000}, 1);
  statistics->AddPending(3);
  statistics->AddPending(-1);
  statistics->SetLoadSeconds(0.5);
  statistics->RecordClose(batching::CloseReason::kFull);
  Expect(R"(nv_inference_request_success{model="m",version="3",_team="red"} 1)");
  for (const char* reason : {"CANCELED", "BACKEND", "OTHER"}) {
    Expect(base::StrCat(R"(nv_inference_request_failure{model="m",version="3",_team="red",reason=")", reason,
                        R"("} 0)"));
  }
  Expect(R"(nv_inference_request_failure{model="m",version="3",_team="red",reason="REJECTED"} 1)");
  Expect(R"(nv_inference_count{model="m",version="3",_team="red"} 1)");
  Expect(R"(nv_inference_exec_count{model="m",version="3",_team="red"} 1)");
  Expect(R"(nv_inference_request_duration_us{model="m",version="3",_team="red"} 10)");
  Expect(R"(nv_inference_queue_duration_us{model="m",version="3",_team="red"} 1)");
  Expect(R"(nv_inference_compute_input_duration_us{model="m",version="3",_team="red"} 2)");
  Expect(R"(nv_inference_compute_infer_duration_us{model="m",version="3",_team="red"} 3)");
  Expect(R"(nv_inference_compute_output_duration_us{model="m",version="3",_team="red"} 0)");
  Expect(R"(nv_inference_pending_request_count{model="m",version="3",_team="red"} 2)");
  Expect(R"(nv_model_load_duration_secs{model="m",version="3",_team="red"} 0.5)");
  Expect(R"(stoker_request_duration_seconds_count{model="m",version="3",_team="red"} 1)");
  Expect(R"(stoker_batch_rows_sum{model="m",version="3",_team="red"} 1)");
  Expect(R"(stoker_batch_closed_total{model="m",version="3",_team="red",reason="full"} 1)");
  ASSERT_EQ(statistics->Read().batches.size(), 1u);
  EXPECT_EQ(statistics->Read().batches[0].batch_size, 0u)
      << "models without a batch dimension count under size 0";
}

TEST_F(StatisticsTest, LatencyCountersCanBeLeftOut) {
  const auto statistics = Make(0, false);
  const std::string text = registry_.Render(observe::TextFormat::kPrometheus004);
  EXPECT_EQ(text.find("duration_us{"), std::string::npos);
  EXPECT_NE(text.find("nv_inference_count{"), std::string::npos);
}

TEST_F(StatisticsTest, SeriesGoWithTheirModel) {
  const size_t before = registry_.series();
  Make(4).reset();
  EXPECT_EQ(registry_.series(), before);
}

TEST_F(StatisticsTest, ADifferenceLeavesOutWhatWasBefore) {
  const auto statistics = Make(8);
  statistics->RecordSuccess(2, kTimes);
  statistics->RecordExecution({.rows = 2, .infer_ns = 10}, 1'000'000);
  const ModelStatistics before = statistics->Read();
  ModelStatistics rest = Difference(statistics->Read(), before);
  EXPECT_EQ(rest.success.count, 0u);
  EXPECT_EQ(rest.last_inference_ms, 0u);
  EXPECT_TRUE(rest.batches.empty());
  statistics->RecordExecution({.rows = 5, .infer_ns = 20}, 9'000'000);
  statistics->RecordFailure(FailureReason::kOther, 3);
  rest = Difference(statistics->Read(), before);
  EXPECT_EQ(rest.execution_count, 1u);
  EXPECT_EQ(rest.fail.ns, 3u);
  ASSERT_EQ(rest.batches.size(), 1u);
  EXPECT_EQ(rest.batches[0].batch_size, 5u);
  EXPECT_GT(rest.last_inference_ms, 0u);
}

}  // namespace
}  // namespace stoker::host
