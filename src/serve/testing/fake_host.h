#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <stoker/base/str_cat.h>
#include <stoker/host/host.h>

namespace stoker::serve::testing {

/// A host whose models are given and whose requests the test answers itself. Not thread-safe.
class FakeHost final : public host::Host {
 public:
  struct Submitted {
    std::unique_ptr<host::InferRequest> request;
    std::unique_ptr<host::ResponseSink> sink;
  };

  void Serve(std::string name, host::ModelRef model) { models_[std::move(name)] = std::move(model); }
  /// Answers request `index` with status OK and its own inputs as outputs; `final` ends it.
  void Echo(size_t index, bool final = true) {
    host::InferResponse response;
    response.final = final;
    for (const auto& input : submitted[index].request->inputs)
      response.outputs.push_back({response.outputs.size(), input.tensor});
    submitted[index].sink->OnResponse(std::move(response));
  }
  void Fail(size_t index, base::Status status) {
    host::InferResponse response;
    response.status = std::move(status);
    submitted[index].sink->OnResponse(std::move(response));
  }
  void EndEmpty(size_t index) {
    host::InferResponse response;
    response.empty = true;
    submitted[index].sink->OnResponse(std::move(response));
  }

  base::Status Start() override { return base::OkStatus(); }
  base::Result<host::ModelRef> Find(std::string_view name, std::string_view /*version*/) const override {
    const auto found = models_.find(name);
    if (found == models_.end()) {
      return base::NotFound(base::StrCat("Request for unknown model: '", name, "' is not found"));
    }
    return found->second;
  }
  bool live() const override { return true; }
  bool ready() const override { return ready_now; }
  std::vector<int64_t> Versions(std::string_view name) const override {
    if (models_.find(name) == models_.end()) return {};
    return {1};
  }
  void Submit(std::unique_ptr<host::InferRequest> request,
              std::unique_ptr<host::ResponseSink> sink) override {
    submitted.push_back({std::move(request), std::move(sink)});
    if (echo_at_once) Echo(submitted.size() - 1);
  }
  void Load(host::LoadRequest request, std::function<void(base::Status)> done) override {
    loads.push_back(std::move(request));
    done(base::OkStatus());
  }
  void Unload(std::string name, bool dependents, std::function<void(base::Status)> done) override {
    unloads.emplace_back(std::move(name), dependents);
    done(base::OkStatus());
  }
  std::vector<host::ModelIndexEntry> Index(bool ready_only) const override {
    std::vector<host::ModelIndexEntry> index = {{"served", "1", "READY", ""}};
    if (!ready_only) index.push_back({"broken", "1", "UNAVAILABLE", "no file"});
    return index;
  }
  base::Result<std::vector<host::ModelStatistics>> Statistics(std::string_view name,
                                                              std::string_view /*version*/) const override {
    if (!name.empty() && models_.find(name) == models_.end()) return base::NotFound("no such model");
    host::ModelStatistics one;
    one.name = "served";
    one.version = "1";
    one.inference_count = 7;
    one.success = {5, 600};
    one.batches.push_back({4, {1, 2}, {3, 4}, {5, 6}});
    return std::vector<host::ModelStatistics>{one};
  }
  std::vector<host::ModelSummary> Summaries() const override { return {}; }
  void BeginShutdown() override {}
  base::Status Drain(int64_t /*deadline_ns*/) override { return base::OkStatus(); }
  size_t requests_in_flight() const override { return submitted.size(); }

  std::vector<Submitted> submitted;  // in the order of submission
  bool echo_at_once = false;
  bool ready_now = true;
  std::vector<host::LoadRequest> loads;
  std::vector<std::pair<std::string, bool>> unloads;

 private:
  std::map<std::string, host::ModelRef, std::less<>> models_;
};

}  // namespace stoker::serve::testing
