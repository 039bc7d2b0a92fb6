#include "host_internal.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include <stoker/base/str_cat.h>
#include <stoker/base/thread.h>
#include <stoker/observe/log.h>

#include "known_engines.h"
#include "machine_metrics.h"
#include "model_manager.h"
#include "reaper.h"
#include "repository/repository.h"

namespace stoker::host {
namespace {

using base::StrCat;

constexpr int64_t kEndPatienceNs = 6 * base::kNsPerSecond;  // longer than the reaper's for one version
constexpr int64_t kDrainLookNs = base::kNsPerMs;

base::Status Stopping(std::string_view model) {
  return base::Unavailable(
      StrCat("Server is stopping, scheduler for model has stopped accepting new inference requests: '", model,
             "'; send it to another server"));
}

/// What versions and loads use; kept for good when one of them hangs in an engine.
struct Ground {
  std::unique_ptr<EngineSet> engines;
  std::unique_ptr<device::Lease> lease = device::MakeOpenLease();
  RequestCounts counts;
  std::unique_ptr<Timer> timer;
  std::unique_ptr<Reaper> reaper;
  std::shared_ptr<ModelManager> manager;  // shared with its tasks
};

class HostImpl final : public Host {
 public:
  HostImpl(HostOptions options, const Dependencies& dependencies, internal::HostParts parts);
  ~HostImpl() override;

  base::Status Start() override;
  base::Result<ModelRef> Find(std::string_view name, std::string_view version) const override;
  bool live() const override { return !ended_.load(std::memory_order_acquire); }
  bool ready() const override;
  std::vector<int64_t> Versions(std::string_view name) const override;
  void Submit(std::unique_ptr<InferRequest> request, std::unique_ptr<ResponseSink> sink) override;
  void Load(LoadRequest request, std::function<void(base::Status)> done) override;
  void Unload(std::string name, bool unload_dependents, std::function<void(base::Status)> done) override;
  std::vector<ModelIndexEntry> Index(bool ready_only) const override {
    return ground_->manager->Index(ready_only);
  }
  base::Result<std::vector<ModelStatistics>> Statistics(std::string_view name,
                                                        std::string_view version) const override;
  std::vector<ModelSummary> Summaries() const override;
  void BeginShutdown() override;
  base::Status Drain(int64_t deadline_ns) override;
  size_t requests_in_flight() const override { return ground_->counts.InFlight(); }

 private:
  base::Result<std::vector<std::string>> StartupModels();
  void PollLoop();
  void StopPolling();
  void AnswerAll();

  const HostOptions options_;
  const Dependencies dependencies_;
  std::unique_ptr<Ground> ground_;
  MachineMetrics machine_metrics_;
  std::atomic<bool> started_{false}, leaving_{false}, closed_{false}, ended_{false};
  base::Mutex mutex_;
  base::CondVar wake_;
  bool stop_polling_ GUARDED_BY(mutex_) = false;
  base::Thread poller_;
};

HostImpl::HostImpl(HostOptions options, const Dependencies& dependencies, internal::HostParts parts)
    : options_(std::move(options)),
      dependencies_(dependencies),
      ground_(std::make_unique<Ground>()),
      machine_metrics_(dependencies.metrics, dependencies.clock) {
  VersionStatistics::DeclareFamilies(dependencies.metrics);
  ground_->engines = std::move(parts.engines);
  ground_->timer = std::make_unique<Timer>(dependencies.clock);
  ground_->reaper = std::make_unique<Reaper>(dependencies.clock);
  const Services services{.clock = dependencies.clock,
                          .metrics = dependencies.metrics,
                          .log = dependencies.log,
                          .timer = ground_->timer.get(),
                          .lease = ground_->lease.get(),
                          .counts = &ground_->counts,
                          .engines = ground_->engines.get(),
                          .cores = options_.cores,
                          .queue_rows_max = options_.queue_rows_max,
                          .output_bytes_max = options_.output_bytes_max,
                          .backend_config = options_.backend_config};
  ModelManager::Parts manager;
  manager.source = std::move(parts.source);
  manager.loader =
      std::make_unique<VersionLoader>(services, options_.latency_counters, ground_->reaper.get());
  manager.clock = dependencies.clock;
  manager.log = dependencies.log;
  manager.load_threads = options_.load_threads;
  ground_->manager = std::make_shared<ModelManager>(std::move(manager));
}

// The engine of a version or of a load may hang. Nothing can end it from inside the process, so after
// a bounded wait what it uses is left behind.
HostImpl::~HostImpl() {
  leaving_.store(true);
  closed_.store(true);
  ended_.store(true);
  StopPolling();
  AnswerAll();
  const bool loads_ended = ground_->manager->Shutdown(dependencies_.clock->NowNs() + kEndPatienceNs);
  const bool versions_ended = ground_->reaper->Close(dependencies_.clock->NowNs() + kEndPatienceNs);
  if (loads_ended && versions_ended) return;
  static_cast<void>(ground_.release());
}

base::Result<std::vector<std::string>> HostImpl::StartupModels() {
  const bool all = options_.startup_models.size() == 1 && options_.startup_models[0] == "*";
  if (options_.control_mode == ControlMode::kExplicit && !all) return options_.startup_models;
  return ground_->manager->source().Names();
}

base::Status HostImpl::Start() {
  STOKER_ASSIGN_OR_RETURN(const std::vector<std::string> names, StartupModels());
  struct Progress {
    base::Mutex mutex;
    base::CondVar changed;
    size_t left = 0;
    std::string failures;
  };
  const auto progress = std::make_shared<Progress>();  // shared with the loads
  progress->left = names.size();
  for (const std::string& name : names) {
    ground_->manager->LoadWatched(name, [progress, name](const base::Status& status) {
      base::MutexLock lock(&progress->mutex);
      if (!status.ok()) base::StrAppend(&progress->failures, "\n  model '", name, "': ", status.message());
      if (--progress->left == 0) progress->changed.NotifyAll();
    });
  }
  base::MutexLock lock(&progress->mutex);
  while (progress->left > 0) progress->changed.Wait(&progress->mutex);
  if (!progress->failures.empty() && options_.exit_on_error) {
    return base::Internal(
        StrCat("failed to load all models (--exit-on-error=false serves the rest):", progress->failures));
  }
  started_.store(true, std::memory_order_release);
  if (options_.control_mode == ControlMode::kPoll) {
    base::MutexLock polling(&mutex_);  // BeginShutdown may come meanwhile
    if (!stop_polling_) poller_ = base::Thread("host/poll", [this] { PollLoop(); });
  }
  return base::OkStatus();
}

void HostImpl::PollLoop() {
  const int64_t interval = std::max<int64_t>(options_.poll_interval_ns, base::kNsPerMs);
  for (;;) {
    {
      base::MutexLock lock(&mutex_);
      const int64_t until = dependencies_.clock->NowNs() + interval;
      while (!stop_polling_) {
        const int64_t left = until - dependencies_.clock->NowNs();
        if (left <= 0) break;
        wake_.WaitFor(&mutex_, left);
      }
      if (stop_polling_) return;
    }
    if (const base::Status status = ground_->manager->Poll(); !status.ok()) {
      dependencies_.log->Error("cannot look at the model repositories", {{"reason", status.message()}});
    }
  }
}

void HostImpl::StopPolling() {
  {
    base::MutexLock lock(&mutex_);
    stop_polling_ = true;
    wake_.NotifyAll();
  }
  poller_.Join();
}

base::Result<ModelRef> HostImpl::Find(std::string_view name, std::string_view version) const {
  auto found =
      ground_->manager->table().Read([&](const ModelTable& table) { return table.Find(name, version); });
  if (!found.ok()) return found.status();
  return ModelRef(std::move(*found));
}

bool HostImpl::ready() const {
  if (!started_.load(std::memory_order_acquire) || leaving_.load(std::memory_order_acquire)) return false;
  return !options_.strict_readiness || ground_->manager->all_ready();
}

std::vector<int64_t> HostImpl::Versions(std::string_view name) const {
  return ground_->manager->table().Read([&](const ModelTable& table) {
    std::vector<int64_t> out;
    const auto found = table.models.find(name);
    if (found == table.models.end()) return out;
    for (const auto& [version, model] : found->second.ready) out.push_back(version);
    return out;
  });
}

void HostImpl::Submit(std::unique_ptr<InferRequest> request, std::unique_ptr<ResponseSink> sink) {
  const int64_t now = dependencies_.clock->NowNs();
  const int64_t started = request->received_ns > 0 ? std::min(request->received_ns, now) : now;
  ground_->counts.Begin();
  base::Status refused;
  if (request->model == nullptr) {
    refused = base::InvalidArgument("the request names no model");
  } else if (closed_.load(std::memory_order_seq_cst)) {
    refused = Stopping(request->model->name());
  } else if (request->cancellation != nullptr && request->cancellation->cancelled()) {
    refused = base::Cancelled("the client cancelled the request");
  } else {
    // Models come from Find only, so this one is ours.
    const auto& model = static_cast<const ServedModel&>(*request->model);
    return model.core().Submit(std::move(request), std::move(sink), {.started_ns = started, .now_ns = now});
  }
  InferResponse response;
  response.status = std::move(refused);
  sink->OnResponse(std::move(response));
  ground_->counts.End();
}

void HostImpl::Load(LoadRequest request, std::function<void(base::Status)> done) {
  if (options_.control_mode != ControlMode::kExplicit) {
    return done(base::Unavailable("explicit model load / unload is not allowed if polling is enabled"));
  }
  ground_->manager->Load(std::move(request), std::move(done));
}

void HostImpl::Unload(std::string name, bool, std::function<void(base::Status)> done) {
  if (options_.control_mode != ControlMode::kExplicit) {
    return done(base::Unavailable("explicit model load / unload is not allowed if polling is enabled"));
  }
  ground_->manager->Unload(std::move(name), std::move(done));
}

base::Result<std::vector<ModelStatistics>> HostImpl::Statistics(std::string_view name,
                                                                std::string_view version) const {
  std::vector<ModelStatistics> out;
  if (name.empty()) {
    for (const ServedRef& model : ground_->manager->Loaded()) out.push_back(model->Statistics());
    return out;
  }
  std::vector<ServedRef> models;
  const base::Status status = ground_->manager->table().Read([&](const ModelTable& table) {
    if (!version.empty()) {
      auto found = table.Find(name, version);
      if (!found.ok()) return found.status();
      models.push_back(std::move(*found));
      return base::OkStatus();
    }
    if (const auto entry = table.models.find(name); entry != table.models.end()) {
      for (const auto& [number, model] : entry->second.ready) models.push_back(model);
    }
    return base::OkStatus();
  });
  if (!status.ok() || models.empty()) {
    const std::string shown = version.empty() ? "" : StrCat(" version ", base::Quoted(version));
    return base::InvalidArgument(
        StrCat("requested model '", name.substr(0, 256), "'", shown, " is not available"));
  }
  for (const ServedRef& model : models) out.push_back(model->Statistics());
  return out;
}

std::vector<ModelSummary> HostImpl::Summaries() const {
  std::vector<ModelSummary> out;
  for (const ServedRef& model : ground_->manager->Loaded()) out.push_back(model->Summary());
  return out;
}

void HostImpl::BeginShutdown() {
  leaving_.store(true, std::memory_order_release);
  StopPolling();
}

base::Status HostImpl::Drain(int64_t deadline_ns) {
  BeginShutdown();
  closed_.store(true, std::memory_order_seq_cst);
  {
    base::MutexLock lock(&mutex_);
    while (ground_->counts.InFlight() > 0 && dependencies_.clock->NowNs() < deadline_ns) {
      wake_.WaitFor(&mutex_, kDrainLookNs);
    }
  }
  const size_t left = ground_->counts.InFlight();
  AnswerAll();
  if (left == 0) return base::OkStatus();
  return base::DeadlineExceeded(
      StrCat(left, " requests did not finish in time; they were answered with UNAVAILABLE"));
}

void HostImpl::AnswerAll() {
  for (const ServedRef& model : ground_->reaper->Live()) model->core().AnswerAll(Stopping(model->name()));
}

}  // namespace

namespace internal {

base::Result<std::unique_ptr<Host>> MakeHost(HostOptions options, const Host::Dependencies& dependencies,
                                             HostParts parts) {
  CHECK(dependencies.clock != nullptr && dependencies.metrics != nullptr && dependencies.log != nullptr);
  return std::unique_ptr<Host>(new HostImpl(std::move(options), dependencies, std::move(parts)));
}

}  // namespace internal

base::Result<std::unique_ptr<Host>> Host::Make(HostOptions options, Dependencies dependencies) {
  if (options.repositories.empty() && options.single_model_file.empty()) {
    return base::InvalidArgument(
        "no models to serve: give a model repository (--model-repository) or a model file");
  }
  internal::HostParts parts;
  parts.engines = MakeKnownEngines(dependencies.engine_folder);
  parts.source = MakeFolderSource(options, parts.engines.get());
  return internal::MakeHost(std::move(options), dependencies, std::move(parts));
}

}  // namespace stoker::host
