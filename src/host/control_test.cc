// Aim: models come, change and go without a request lost, and what cannot load harms nothing. Method:
// real folders that the test edits; an engine whose loads and runs the test holds.
#include <fstream>
#include <thread>

#include <stoker/base/thread.h>

#include "host_fixture.h"

namespace stoker::host {
namespace {

constexpr std::string_view kModel = R"(backend: "test" max_batch_size: 4
  input [ { name: "IN" data_type: TYPE_FP32 dims: [ -1 ] } ]
  output [ { name: "OUT" data_type: TYPE_FP32 dims: [ -1 ] } ])";

class ControlTest : public HostTest {
 protected:
  ControlTest() {
    AddModel("m", kModel);
    WriteFile("m/1/weights", "one");
  }
  static std::string With(std::string_view rest) { return base::StrCat(kModel, rest); }
  base::Status Infer1(const std::string& version = "") {
    const auto found = host().Find("m", version);
    if (!found.ok()) return found.status();
    auto request = std::make_unique<InferRequest>();
    request->model = *found;
    request->inputs = {FloatInput("IN", {1, 2}, 1)};
    return HostTest::Infer(std::move(request)).status;
  }
  base::Status ForceLoad(const std::string& name) {
    LoadRequest request;
    request.model = name;
    request.force = true;
    return Load(std::move(request));
  }
};

TEST_F(ControlTest, LoadAndUnload) {
  options_.startup_models = {};
  StartHost();
  EXPECT_EQ(Infer1().message(), "Request for unknown model: 'm' is not found");
  EXPECT_EQ(StateOf("m", ""), " ") << "a model that was never loaded has only a name";
  ASSERT_TRUE(Load("m").ok());
  EXPECT_EQ(StateOf("m", "1"), "READY ");
  EXPECT_TRUE(Infer1().ok());
  EXPECT_EQ(Infer1("2").message(), "Request for unknown model: 'm' version 2 is not found");
  EXPECT_EQ(host().Find("m", "0").status().code(), base::StatusCode::kNotFound);
  EXPECT_EQ(host().Find("m", "36893488147419103233").status().code(), base::StatusCode::kInvalidArgument);
  EXPECT_EQ(host().Find("m", "x").status().code(), base::StatusCode::kInvalidArgument);
  EXPECT_TRUE(host().Find("m", "01").ok());
  ASSERT_TRUE(Unload("m").ok());
  EXPECT_EQ(Infer1().code(), base::StatusCode::kNotFound);
  EXPECT_EQ(Infer1().message(), "Request for unknown model: 'm' has no available versions");
  while (StateOf("m", "1") != "UNAVAILABLE unloaded") std::this_thread::yield();
  EXPECT_TRUE(host().ready()) << "what was unloaded on purpose does not count";
  EXPECT_TRUE(Unload("nobody").ok());
  EXPECT_EQ(engine_.instances(), 0u);
  ASSERT_TRUE(Load("m").ok());
  EXPECT_TRUE(Infer1().ok());
}

TEST_F(ControlTest, AnUnloadedModelFinishesItsRequests) {
  StartHost();
  engine_.HoldRuns(true);
  Inbox inbox;
  host().Submit(NewRequest("m", {FloatInput("IN", {1, 2}, 1)}), inbox.NewSink());
  engine_.WaitForRuns(1);
  ASSERT_TRUE(Unload("m").ok()) << "the answer comes before the end";
  EXPECT_EQ(StateOf("m", "1"), "UNLOADING ");
  EXPECT_EQ(Infer1().code(), base::StatusCode::kNotFound);
  engine_.HoldRuns(false);
  inbox.WaitFor(1);
  EXPECT_TRUE(inbox.Take()[0].status.ok());
  while (StateOf("m", "1") != "UNAVAILABLE unloaded") std::this_thread::yield();
}

TEST_F(ControlTest, WhatCannotLoadSaysWhyAndLeavesTheOldOne) {
  StartHost();
  base::Status status = Load("nobody");
  EXPECT_EQ(status.code(), base::StatusCode::kInternal);
  EXPECT_NE(status.message().find("failed to load 'nobody', failed to poll from model repository"),
            std::string::npos);
  AddModel("m", "max_batch_size: nonsense");
  status = Load("m");
  EXPECT_EQ(status.code(), base::StatusCode::kInternal);
  EXPECT_NE(status.message().find("failed to load 'm', failed to poll from model repository: "),
            std::string::npos);
  EXPECT_TRUE(Infer1().ok());
  AddModel("m", "backend: \"no_such_backend\"");
  status = Load("m");
  EXPECT_EQ(status.code(), base::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("load failed for model 'm': "), std::string::npos) << status.message();
  EXPECT_TRUE(Infer1().ok());
  AddModel("m", With("parameters { key: \"x\" value: { string_value: \"1\" } }"));
  engine_.FailLoads("the weights are gone");
  status = Load("m");
  EXPECT_EQ(status.code(), base::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "load failed for model 'm': version 1 is at UNAVAILABLE state: the weights are gone;");
  EXPECT_TRUE(Infer1().ok());
  EXPECT_EQ(StateOf("m", "1"), "READY ");
  EXPECT_TRUE(host().ready());
  AddModel("other", kModel);
  EXPECT_FALSE(Load("other").ok());
  EXPECT_EQ(StateOf("other", "1"), "UNAVAILABLE the weights are gone");
  EXPECT_FALSE(host().ready());
  EXPECT_EQ(host().Find("other", "1").status().message(),
            "Request for unknown model: 'other' version 1 is not at ready state");
  ASSERT_TRUE(Unload("other").ok());
  EXPECT_TRUE(host().ready());
}

TEST_F(ControlTest, AnUnchangedModelIsLeftAloneUnlessForced) {
  StartHost();
  ASSERT_TRUE(Infer1().ok());
  ASSERT_TRUE(Load("m").ok());
  EXPECT_EQ(engine_.loads(), 1u);
  EXPECT_EQ(host().Statistics("m", "")->at(0).success.count, 1u);
  ASSERT_TRUE(ForceLoad("m").ok());
  EXPECT_EQ(engine_.loads(), 2u);
  EXPECT_EQ(host().Statistics("m", "")->at(0).success.count, 0u) << "a new model counts anew";
  ASSERT_TRUE(Infer1().ok());
  EXPECT_EQ(host().Statistics("m", "")->at(0).success.count, 1u);
  EXPECT_NE(Metrics().find(R"(nv_inference_request_success{model="m",version="1"} 2)"), std::string::npos)
      << "its series go on";
  WriteFile("m/1/weights", "other weights");
  ASSERT_TRUE(Load("m").ok());
  EXPECT_EQ(engine_.loads(), 3u);
}

TEST_F(ControlTest, InstancesChangeWithoutAReload) {
  AddModel("m", With("instance_group [ { count: 1 kind: KIND_CPU } ]"));
  StartHost();
  ASSERT_TRUE(Infer1().ok());
  EXPECT_EQ(engine_.instances(), 1u);
  AddModel("m", With("instance_group [ { count: 4 kind: KIND_CPU } ]"));
  ASSERT_TRUE(Load("m").ok());
  EXPECT_EQ(engine_.loads(), 1u);
  EXPECT_EQ(engine_.instances(), 4u);
  EXPECT_NE((*host().Find("m", ""))->config_json().find("\"count\":4"), std::string::npos);
  EXPECT_EQ(host().Statistics("m", "")->at(0).success.count, 1u);
  AddModel("m", With("instance_group [ { count: 2 kind: KIND_CPU } ]"));
  ASSERT_TRUE(Load("m").ok());
  EXPECT_EQ(engine_.instances(), 2u);
  EXPECT_TRUE(Infer1().ok());
  AddModel("m", With("instance_group [ { count: 3 kind: KIND_CPU } ]"));
  ASSERT_TRUE(Load("m").ok());
  EXPECT_EQ(engine_.instances(), 3u);
  EXPECT_EQ(engine_.loads(), 1u);
  EXPECT_EQ(host().Statistics("m", "")->at(0).success.count, 2u);
}

TEST_F(ControlTest, AnOverrideOfTheInstancesAloneIsNoReload) {
  StartHost();
  ASSERT_TRUE(Infer1().ok());
  LoadRequest request;
  request.model = "m";
  std::string json = (*host().Find("m", ""))->config_json();
  const size_t count = json.find("\"count\":1");
  ASSERT_NE(count, std::string::npos) << json;
  request.config_json = json.replace(count, 9, "\"count\":3");
  ASSERT_TRUE(Load(request).ok());
  EXPECT_EQ(engine_.loads(), 1u);
  EXPECT_EQ(engine_.instances(), 3u);
  EXPECT_EQ(host().Statistics("m", "")->at(0).success.count, 1u);
}

TEST_F(ControlTest, VersionsFollowThePolicy) {
  StartHost();
  WriteFile("m/2/weights", "two");
  ASSERT_TRUE(Load("m").ok());
  EXPECT_EQ(host().Versions("m"), std::vector<int64_t>{2});
  EXPECT_FALSE(host().Find("m", "1").ok());
  AddModel("m", With("version_policy { all {} }"));
  ASSERT_TRUE(Load("m").ok());
  EXPECT_EQ(host().Versions("m"), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ((*host().Find("m", ""))->version(), 2);
  const size_t before = engine_.loads();
  WriteFile("m/3/weights", "three");
  ASSERT_TRUE(Load("m").ok());
  EXPECT_EQ(host().Versions("m"), (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(engine_.loads(), before + 1) << "versions that did not change stay as they are";
  AddModel("m", With("version_policy { specific { versions: [ 7 ] } }"));
  const base::Status status = Load("m");
  EXPECT_EQ(status.code(), base::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "load failed for model 'm': at least one version must be available under the version policy of "
            "model 'm'");
  EXPECT_EQ(host().Versions("m"), (std::vector<int64_t>{1, 2, 3}));
}

TEST_F(ControlTest, ConfigurationOverrides) {
  StartHost();
  LoadRequest request;
  request.model = "m";
  request.config_json = R"({"backend":"test","max_batch_size":2,
    "input":[{"name":"IN","data_type":"TYPE_FP32","dims":[3]}],"output":[{"name":"OUT","data_type":"TYPE_FP32","dims":[3]}]})";
  ASSERT_TRUE(Load(request).ok());
  EXPECT_EQ((*host().Find("m", ""))->max_batch_size(), 2);
  ASSERT_TRUE(Load("m").ok());
  EXPECT_EQ((*host().Find("m", ""))->max_batch_size(), 2) << "as long as no file changes, an override stays";
  ASSERT_TRUE(ForceLoad("m").ok());
  EXPECT_EQ((*host().Find("m", ""))->max_batch_size(), 4);
  request.model = "from_memory";
  request.files = {{"file:1/weights", base::Bytes::Own("w")}};
  ASSERT_TRUE(Load(request).ok());
  EXPECT_TRUE(host().Find("from_memory", "").ok());
  ASSERT_TRUE(Unload("from_memory").ok());
  while (StateOf("from_memory", "1") != "") std::this_thread::yield();
  EXPECT_EQ(host().Find("from_memory", "").status().code(), base::StatusCode::kNotFound);
}

// Requests go on from three threads while the model is reloaded again and again, also with failures.
TEST_F(ControlTest, ReloadsUnderLoadLoseNothing) {
  AddModel("m", With("dynamic_batching {}"));
  StartHost();
  std::atomic<bool> done{false};
  std::atomic<size_t> good{0}, bad{0};
  std::vector<base::Thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back("submit", [&] {
      Inbox inbox;
      while (!done.load()) {
        for (int i = 0; i < 8; ++i) {
          host().Submit(NewRequest("m", {FloatInput("IN", {1, 2}, static_cast<float>(i))}), inbox.NewSink());
        }
        inbox.WaitFor(8);
        for (const Answer& answer : inbox.Take()) ++(answer.status.ok() ? good : bad);
      }
    });
  }
  for (int reload = 0; reload < 40; ++reload) {
    if (reload % 5 == 4) {
      engine_.FailLoads("not this time");
      EXPECT_FALSE(ForceLoad("m").ok());
      engine_.FailLoads("");
    } else {
      const base::Status status = ForceLoad("m");
      EXPECT_TRUE(status.ok()) << status.ToString();
    }
  }
  done = true;
  threads.clear();
  EXPECT_EQ(bad.load(), 0u);
  EXPECT_GT(good.load(), 0u);
  WaitUntilIdle();
}

TEST_F(ControlTest, OperationsOnOneModelFollowEachOther) {
  StartHost();
  std::atomic<int> finished{0};
  std::vector<base::Thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back("control", [&, t] {
      for (int i = 0; i < 20; ++i) {
        if ((t + i) % 2 == 0) {
          EXPECT_TRUE(ForceLoad("m").ok());
        } else {
          EXPECT_TRUE(Unload("m").ok());
        }
        ++finished;
      }
    });
  }
  threads.clear();
  EXPECT_EQ(finished.load(), 80);
  ASSERT_TRUE(Load("m").ok());
  EXPECT_TRUE(Infer1().ok());
  EXPECT_EQ(StateOf("m", "1"), "READY ");
}

TEST_F(ControlTest, OtherModelsLoadWhileOneTakesLong) {
  AddModel("quick", R"(backend: "identity" input [ { name: "INPUT0" data_type: TYPE_FP32 dims: [ 1 ] } ]
                       output [ { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 1 ] } ])");
  options_.startup_models = {};
  StartHost();
  engine_.HoldLoads(true);
  std::atomic<bool> loaded{false};
  LoadRequest request;
  request.model = "m";
  host().Load(request, [&loaded](base::Status status) { loaded = status.ok(); });
  engine_.WaitForLoads(1);
  EXPECT_EQ(StateOf("m", "1"), "LOADING ");
  EXPECT_FALSE(host().ready());
  EXPECT_TRUE(Load("quick").ok());
  EXPECT_TRUE(HostTest::Infer("quick", {FloatInput("INPUT0", {1}, 1)}).status.ok());
  EXPECT_FALSE(loaded.load());
  engine_.HoldLoads(false);
  ASSERT_TRUE(Unload("m").ok());  // waits its turn behind the load
  EXPECT_TRUE(loaded.load());
}

TEST_F(ControlTest, PollingFollowsTheFolders) {
  options_.control_mode = ControlMode::kPoll;
  options_.poll_interval_ns = 2 * base::kNsPerMs;
  StartHost();
  EXPECT_EQ(Load("m").message(), "explicit model load / unload is not allowed if polling is enabled");
  EXPECT_EQ(Load("m").code(), base::StatusCode::kUnavailable);
  AddModel("late", kModel);
  while (!host().Find("late", "").ok()) std::this_thread::yield();
  WriteFile("m/2/weights", "two");
  while (host().Versions("m") != std::vector<int64_t>{2}) std::this_thread::yield();
  AddModel("m", "now it is wrong {");
  AddModel("later", kModel);  // comes after m in the same look or the next
  while (!host().Find("later", "").ok()) std::this_thread::yield();
  EXPECT_TRUE(Infer1().ok());
  std::filesystem::remove_all(std::filesystem::path(folder_) / "late");
  while (host().Find("late", "").ok()) std::this_thread::yield();
}

TEST_F(ControlTest, ModeNoneLoadsAllAndTakesNoOrders) {
  options_.control_mode = ControlMode::kNone;
  AddModel("second", kModel);
  StartHost();
  EXPECT_TRUE(host().Find("second", "").ok());
  EXPECT_EQ(Unload("m").code(), base::StatusCode::kUnavailable);
}

TEST_F(ControlTest, StartNamesWhatFailed) {
  AddModel("broken", "backend: \"nobody_has_this\"");
  const auto make = [this] {
    internal::HostParts parts;
    parts.engines = std::make_unique<TestEngineSet>(&engine_);
    parts.source = MakeFolderSource(options_, parts.engines.get());
    return std::move(*internal::MakeHost(
        options_, {.clock = clock_, .metrics = &registry_, .log = log_.get(), .engine_folder = ""},
        std::move(parts)));
  };
  host_ = make();
  const base::Status status = host_->Start();
  EXPECT_NE(status.message().find("model 'broken'"), std::string::npos) << status.ToString();
  EXPECT_FALSE(host_->ready());
  options_.exit_on_error = false;
  host_ = make();
  EXPECT_TRUE(host_->Start().ok());
  EXPECT_TRUE(Infer1().ok());
  EXPECT_FALSE(host_->ready());
  options_.strict_readiness = false;
  host_ = make();
  EXPECT_TRUE(host_->Start().ok());
  EXPECT_TRUE(host_->ready());
}

TEST_F(ControlTest, TheSameNameTwiceIsServedByNeither) {
  const std::filesystem::path second = std::filesystem::path(folder_) / "second_repository";
  std::filesystem::create_directories(second / "m" / "1");
  std::ofstream(second / "m" / "config.pbtxt") << kModel;
  options_.repositories = {folder_, second.string()};
  options_.startup_models = {};
  StartHost();
  const base::Status status = Load("m");
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find("two repositories"), std::string::npos) << status.ToString();
}

TEST_F(ControlTest, WarmUpRunsBeforeTheModelIsReady) {
  WriteFile("m/warmup/numbers", std::string(8, '\0'));
  AddModel("m", With(R"(instance_group [ { count: 2 kind: KIND_CPU } ]
    model_warmup [ { name: "zeros" batch_size: 3 count: 2
                     inputs { key: "IN" value: { data_type: TYPE_FP32 dims: [ 2 ] zero_data: true } } },
                   { name: "file" batch_size: 1
                     inputs { key: "IN" value: { data_type: TYPE_FP32 dims: [ 2 ] input_data_file: "numbers" } } },
                   { name: "noise" batch_size: 4
                     inputs { key: "IN" value: { data_type: TYPE_FP32 dims: [ 5 ] random_data: true } } } ])"));
  StartHost();
  const auto runs = engine_.runs();
  ASSERT_EQ(runs.size(), 8u);  // 2 + 1 + 1 on each instance
  EXPECT_EQ(runs[0].rows, 3);
  EXPECT_EQ(runs[2].rows, 1);
  EXPECT_EQ(runs[3].rows, 4);
  EXPECT_EQ(runs[3].inputs[0].shape, (tensor::Shape{4, 5}));
  EXPECT_EQ(host().Statistics("m", "")->at(0).execution_count, 0u);
  AddModel("m", With(R"(model_warmup [ { name: "wrong" batch_size: 1
                     inputs { key: "IN" value: { data_type: TYPE_INT32 dims: [ 2 ] zero_data: true } } } ])"));
  const base::Status status = Load("m");
  EXPECT_NE(status.message().find("warmup sample 'wrong'"), std::string::npos) << status.ToString();
  EXPECT_TRUE(Infer1().ok());
}

TEST_F(ControlTest, TheEndComesInTheMiddleOfALoad) {
  options_.startup_models = {};
  StartHost();
  engine_.HoldLoads(true);
  std::atomic<bool> answered{false};
  LoadRequest request;
  request.model = "m";
  host().Load(request, [&answered](const base::Status&) { answered = true; });
  engine_.WaitForLoads(1);
  base::Thread end("end", [this] { host_.reset(); });
  engine_.HoldLoads(false);
  end.Join();
  EXPECT_TRUE(answered.load());
  EXPECT_EQ(engine_.instances(), 0u);
}

TEST_F(ControlTest, SummariesTellWhatIsServed) {
  StartHost();
  const auto summaries = host().Summaries();
  ASSERT_EQ(summaries.size(), 1u);
  EXPECT_EQ(summaries[0].name, "m");
  EXPECT_EQ(summaries[0].engine, "test");
  EXPECT_EQ(summaries[0].version, 1);
  const auto model = *host().Find("m", "");
  EXPECT_EQ(model->platform(), "test");
  EXPECT_EQ(model->inputs()[0].metadata_shape, (tensor::Shape{-1, -1}));
  EXPECT_EQ(model->FindOutput("OUT"), 0);
  EXPECT_EQ(model->FindInput("nobody"), -1);
  EXPECT_EQ(host().Statistics("nobody", "").status().code(), base::StatusCode::kInvalidArgument);
  EXPECT_EQ(host().Statistics("", "")->size(), 1u);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define STOKER_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define STOKER_SANITIZED 1
#endif
#endif

#ifndef STOKER_SANITIZED  // sanitizers keep freed memory back
size_t ResidentPages() {
  std::ifstream file("/proc/self/statm");
  size_t total = 0, resident = 0;
  file >> total >> resident;
  return resident;
}

TEST_F(ControlTest, MemoryStaysFlatOverManyLoads) {
  AddModel("m", R"(backend: "stoker_fake" max_batch_size: 4 instance_group [ { count: 2 kind: KIND_CPU } ]
    input [ { name: "IN" data_type: TYPE_FP32 dims: [ -1 ] } ]
    output [ { name: "OUT" data_type: TYPE_FP32 dims: [ 8 ] } ] dynamic_batching {})");
  StartHost();
  size_t middle = 0;
  for (int i = 0; i < 500; ++i) {
    ASSERT_TRUE(Load("m").ok());
    ASSERT_TRUE(Infer1().ok());
    ASSERT_TRUE(Unload("m").ok());
    if (i == 250) middle = ResidentPages();
  }
  EXPECT_LT(ResidentPages(), middle + 512) << "at most 8 KiB more a cycle";
}
#endif

}  // namespace
}  // namespace stoker::host
