#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <stoker/base/clock.h>
#include <stoker/base/mutex.h>
#include <stoker/host/host.h>
#include <stoker/observe/log.h>
#include <stoker/observe/metrics.h>

#include "host_internal.h"
#include "repository/repository.h"
#include "test_engine.h"

namespace stoker::host {

/// A final answer, kept for a test to look at.
struct Answer {
  base::Status status;
  std::vector<InferOutput> outputs;
  RequestTiming timing;
};

/// Waits for answers that come on other threads. Thread-safe.
class Inbox {
 public:
  std::unique_ptr<ResponseSink> NewSink(std::function<void(InferResponse)> also = nullptr) {
    return std::make_unique<Sink>(this, std::move(also));
  }
  void WaitFor(size_t answers) {
    base::MutexLock lock(&mutex_);
    while (answers_.size() < answers) changed_.Wait(&mutex_);
  }
  std::vector<Answer> Take() {
    base::MutexLock lock(&mutex_);
    return std::exchange(answers_, {});
  }
  size_t size() {
    base::MutexLock lock(&mutex_);
    return answers_.size();
  }

 private:
  class Sink final : public ResponseSink {
   public:
    Sink(Inbox* inbox, std::function<void(InferResponse)> also) : inbox_(inbox), also_(std::move(also)) {}
    void OnResponse(InferResponse response) override {
      EXPECT_FALSE(std::exchange(answered_, true)) << "answered twice";
      Answer answer{response.status, response.outputs, response.timing};
      if (also_) also_(std::move(response));
      base::MutexLock lock(&inbox_->mutex_);
      inbox_->answers_.push_back(std::move(answer));
      inbox_->changed_.NotifyAll();
    }

   private:
    Inbox* const inbox_;
    const std::function<void(InferResponse)> also_;
    bool answered_ = false;
  };

  base::Mutex mutex_;
  base::CondVar changed_;
  std::vector<Answer> answers_ GUARDED_BY(mutex_);
};

inline InferInput MakeInput(std::string_view name, tensor::DataType type, tensor::Shape shape,
                            std::string bytes) {
  return {name, {type, std::move(shape), base::Bytes::Own(std::move(bytes))}};
}

/// Numbers start, start + 1, … in that shape.
inline InferInput FloatInput(std::string_view name, const tensor::Shape& shape, float start) {
  std::string bytes;
  const int64_t count = *shape.ElementCount();
  for (int64_t i = 0; i < count; ++i) {
    const float value = start + static_cast<float>(i);
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  return MakeInput(name, tensor::DataType::kFp32, shape, std::move(bytes));
}

/// A host over a folder of models made by the test.
class HostTest : public ::testing::Test {
 protected:
  HostTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "stoker_host_XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    log_ = observe::Log::ToFunction({}, [](std::string_view) {});
    options_.repositories = {folder_};
    options_.cores = 2;
    options_.control_mode = ControlMode::kExplicit;
    options_.startup_models = {"*"};
  }
  ~HostTest() override {
    host_.reset();
    std::filesystem::remove_all(folder_);
  }

  void WriteFile(const std::string& path, std::string_view text) {
    const std::filesystem::path full = std::filesystem::path(folder_) / path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full, std::ios::binary) << text;
  }
  /// A model with version 1, or another configuration of one that is there.
  void AddModel(const std::string& name, std::string_view config) {
    WriteFile(name + "/config.pbtxt", config);
    std::filesystem::create_directories(std::filesystem::path(folder_) / name / "1");
  }
  void StartHost() {
    internal::HostParts parts;
    parts.engines = std::make_unique<TestEngineSet>(&engine_);
    parts.source = MakeFolderSource(options_, parts.engines.get());
    auto made = internal::MakeHost(
        options_, {.clock = clock_, .metrics = &registry_, .log = log_.get(), .engine_folder = ""},
        std::move(parts));
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    host_ = std::move(*made);
    const base::Status started = host_->Start();
    ASSERT_TRUE(started.ok()) << started.ToString();
  }
  Host& host() { return *host_; }
  /// A request is counted out just after its answer was given; a test that waits here for ever has lost one.
  void WaitUntilIdle() {
    while (host().requests_in_flight() != 0) std::this_thread::yield();
  }

  std::unique_ptr<InferRequest> NewRequest(const std::string& model, std::vector<InferInput> inputs,
                                           const std::string& version = "") {
    auto request = std::make_unique<InferRequest>();
    auto found = host_->Find(model, version);
    EXPECT_TRUE(found.ok()) << found.status().ToString();
    if (found.ok()) request->model = std::move(*found);
    request->inputs = std::move(inputs);
    return request;
  }
  Answer Infer(std::unique_ptr<InferRequest> request) {
    Inbox inbox;
    host_->Submit(std::move(request), inbox.NewSink());
    inbox.WaitFor(1);
    return std::move(inbox.Take()[0]);
  }
  Answer Infer(const std::string& model, std::vector<InferInput> inputs) {
    return Infer(NewRequest(model, std::move(inputs)));
  }
  base::Status Load(LoadRequest request) {
    return Await([&](auto done) { host_->Load(std::move(request), std::move(done)); });
  }
  base::Status Load(const std::string& name) {
    LoadRequest request;
    request.model = name;
    return Load(std::move(request));
  }
  base::Status Unload(const std::string& name) {
    return Await([&](auto done) { host_->Unload(name, false, std::move(done)); });
  }
  /// "STATE reason" of a version, "" when the index does not have it.
  std::string StateOf(const std::string& name, const std::string& version) {
    for (const ModelIndexEntry& entry : host_->Index(false)) {
      if (entry.name == name && entry.version == version) return entry.state + " " + entry.reason;
    }
    return "";
  }
  std::string Metrics() { return registry_.Render(observe::TextFormat::kPrometheus004); }

  std::string folder_;
  HostOptions options_;
  TestEngine engine_;
  base::testing::ManualClock manual_clock_;
  base::Clock* clock_ = &base::Clock::Real();
  observe::Registry registry_;
  std::unique_ptr<observe::Log> log_;
  std::unique_ptr<Host> host_;

 private:
  template <typename Start>
  static base::Status Await(Start&& start) {
    struct State {
      base::Mutex mutex;
      base::CondVar changed;
      bool done = false;
      base::Status status;
    };
    State state;
    start([&state](base::Status status) {
      base::MutexLock lock(&state.mutex);
      state.status = std::move(status);
      state.done = true;
      state.changed.NotifyAll();
    });
    base::MutexLock lock(&state.mutex);
    while (!state.done) state.changed.Wait(&state.mutex);
    return state.status;
  }
};

}  // namespace stoker::host
