#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <stoker/base/mutex.h>
#include <stoker/base/str_cat.h>
#include <stoker/base/testing/manual_clock.h>
#include <stoker/engines/engine.h>

#include "engine_set.h"
#include "known_engines.h"

namespace stoker::host {

/// An engine that does as the test says: backend "test". Every output is a copy of the input at the same
/// index (or the last input). Runs and loads can be held, made to fail, and are recorded. Thread-safe.
class TestEngine final : public engines::Engine {
 public:
  static constexpr float kPoison = -666;  // a run with this number in its first input fails

  struct Run {
    int64_t rows = 0;
    std::vector<int64_t> request_rows;
    std::vector<tensor::Tensor> inputs;
  };

  std::string_view name() const override { return "test"; }
  bool Serves(std::string_view backend, std::string_view) const override { return backend == "test"; }
  std::span<const std::string_view> default_filenames() const override { return {}; }
  std::string_view backend_for(std::string_view) const override { return ""; }
  base::Result<engines::ModelDescription> Describe(const engines::ModelSpec&) override {
    return engines::ModelDescription{};
  }

  base::Result<std::unique_ptr<engines::EngineModel>> Load(const engines::ModelSpec& spec) override {
    base::MutexLock lock(&mutex_);
    ++loads_;
    changed_.NotifyAll();
    while (hold_loads_) changed_.Wait(&mutex_);
    if (!load_failure_.empty()) return base::Internal(load_failure_);
    return std::unique_ptr<engines::EngineModel>(new Model(this, spec));
  }

  void HoldRuns(bool hold) { Set(&hold_runs_, hold); }
  void HoldLoads(bool hold) { Set(&hold_loads_, hold); }
  /// Models loaded from now on ask to run on the submitting thread; each run moves `clock` on.
  void RunInline(base::testing::ManualClock* clock) {
    base::MutexLock lock(&mutex_);
    clock_ = clock;
  }
  void SetCost(int64_t ns) {
    base::MutexLock lock(&mutex_);
    cost_ns_ = ns;
  }
  void FailLoads(std::string why) {
    base::MutexLock lock(&mutex_);
    load_failure_ = std::move(why);
  }
  /// Waits until that many runs (or loads) have begun since the start.
  void WaitForRuns(size_t count) {
    base::MutexLock lock(&mutex_);
    while (runs_.size() < count) changed_.Wait(&mutex_);
  }
  void WaitForLoads(size_t count) {
    base::MutexLock lock(&mutex_);
    while (loads_ < count) changed_.Wait(&mutex_);
  }
  std::vector<Run> runs() {
    base::MutexLock lock(&mutex_);
    return runs_;
  }
  size_t loads() {
    base::MutexLock lock(&mutex_);
    return loads_;
  }
  size_t instances() {
    base::MutexLock lock(&mutex_);
    return instances_;
  }
  size_t most_at_once() {
    base::MutexLock lock(&mutex_);
    return most_at_once_;
  }

 private:
  class Instance final : public engines::EngineInstance {
   public:
    Instance(TestEngine* engine, const engines::ModelSpec& spec) : engine_(engine), spec_(spec) {
      engine_->Count(1);
    }
    ~Instance() override { engine_->Count(-1); }
    base::Status Run(const engines::Batch& batch, engines::OutputSink* outputs) override {
      engine_->Begin(batch);
      base::Status status;
      for (size_t i = 0; i < spec_.outputs.size() && status.ok(); ++i) {
        const tensor::Tensor& input = batch.inputs[std::min(i, spec_.inputs.size() - 1)];
        if (i == 0 && HasPoison(input)) {
          status = base::Internal("poisoned run");
          break;
        }
        if (!outputs->Wanted(i) || input.type == tensor::DataType::kInvalid) continue;
        std::byte* memory = outputs->Allocate(i, input.shape, input.bytes.size());
        if (memory == nullptr) {
          status = base::ResourceExhausted("no memory for the output");
        } else if (!input.bytes.empty()) {
          std::memcpy(memory, input.bytes.data(), input.bytes.size());
        }
      }
      engine_->End();
      return status;
    }

   private:
    static bool HasPoison(const tensor::Tensor& input) {
      for (size_t at = 0; input.type == tensor::DataType::kFp32 && at < input.bytes.size();
           at += sizeof(float)) {
        float value = 0;
        std::memcpy(&value, input.bytes.data() + at, sizeof(value));
        if (value == kPoison) return true;
      }
      return false;
    }
    TestEngine* const engine_;
    const engines::ModelSpec& spec_;
  };

  class Model final : public engines::EngineModel {
   public:
    Model(TestEngine* engine, engines::ModelSpec spec) : engine_(engine), spec_(std::move(spec)) {}
    engines::InstanceTraits traits() const override { return {.run_inline = engine_->RunsInline()}; }
    base::Result<std::unique_ptr<engines::EngineInstance>> NewInstance(int) override {
      return std::unique_ptr<engines::EngineInstance>(new Instance(engine_, spec_));
    }
    size_t input_alignment() const override { return 64; }

   private:
    TestEngine* const engine_;
    const engines::ModelSpec spec_;
  };

  bool RunsInline() {
    base::MutexLock lock(&mutex_);
    return clock_ != nullptr;
  }
  void Set(bool* flag, bool value) {
    base::MutexLock lock(&mutex_);
    *flag = value;
    changed_.NotifyAll();
  }
  void Count(int change) {
    base::MutexLock lock(&mutex_);
    instances_ += static_cast<size_t>(change);
  }
  void Begin(const engines::Batch& batch) {
    base::MutexLock lock(&mutex_);
    runs_.push_back({batch.rows,
                     {batch.request_rows.begin(), batch.request_rows.end()},
                     {batch.inputs.begin(), batch.inputs.end()}});
    for (const tensor::Tensor& input : batch.inputs) {
      misaligned_ |= reinterpret_cast<uintptr_t>(input.bytes.data()) % 64 != 0;
    }
    most_at_once_ = std::max(most_at_once_, ++running_);
    changed_.NotifyAll();
    if (clock_ != nullptr) clock_->Advance(cost_ns_);
    while (hold_runs_) changed_.Wait(&mutex_);
  }
  void End() {
    base::MutexLock lock(&mutex_);
    --running_;
  }

  base::Mutex mutex_;
  base::CondVar changed_;
  bool hold_runs_ GUARDED_BY(mutex_) = false;
  bool hold_loads_ GUARDED_BY(mutex_) = false;
  bool misaligned_ GUARDED_BY(mutex_) = false;
  base::testing::ManualClock* clock_ GUARDED_BY(mutex_) = nullptr;
  int64_t cost_ns_ GUARDED_BY(mutex_) = 0;
  std::string load_failure_ GUARDED_BY(mutex_);
  std::vector<Run> runs_ GUARDED_BY(mutex_);
  size_t loads_ GUARDED_BY(mutex_) = 0;
  size_t instances_ GUARDED_BY(mutex_) = 0;
  size_t running_ GUARDED_BY(mutex_) = 0;
  size_t most_at_once_ GUARDED_BY(mutex_) = 0;

 public:
  bool misaligned() {
    base::MutexLock lock(&mutex_);
    return misaligned_;
  }
};

/// This build's engines and the test's own.
class TestEngineSet final : public EngineSet {
 public:
  explicit TestEngineSet(TestEngine* engine) : known_(MakeKnownEngines("")), engine_(engine) {}
  base::Result<engines::Engine*> ForConfig(std::string_view backend, std::string_view platform) override {
    if (backend == "test") return static_cast<engines::Engine*>(engine_);
    return known_->ForConfig(backend, platform);
  }
  std::span<engines::Engine* const> all() override { return known_->all(); }

 private:
  const std::unique_ptr<EngineSet> known_;
  TestEngine* const engine_;
};

}  // namespace stoker::host
