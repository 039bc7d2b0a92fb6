#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <stoker/base/bytes.h>
#include <stoker/base/clock.h>
#include <stoker/base/status.h>
#include <stoker/host/model.h>
#include <stoker/host/request.h>
#include <stoker/host/statistics.h>

namespace stoker::observe {
class Log;
class Registry;
}  // namespace stoker::observe

namespace stoker::host {

enum class ControlMode : uint8_t { kNone, kPoll, kExplicit };

struct HostOptions {
  std::vector<std::string> repositories;  // folders of models
  std::string single_model_file;          // `stoker serve model.onnx`: that file is the only model
  ControlMode control_mode = ControlMode::kNone;
  std::vector<std::string> startup_models;  // with kExplicit; "*" alone: all
  int64_t poll_interval_ns = 15'000'000'000;
  std::string config_name;  // picks configs/<name>.pbtxt
  bool strict_readiness = true;
  bool exit_on_error = true;  // Start fails when a model fails
  bool disable_auto_complete = false;
  int load_threads = 4;
  int cores = 1;
  std::map<std::string, std::map<std::string, std::string>> backend_config;  // backend → key → value
  bool latency_counters = true;          // the nv_*_duration_us families (metrics option counter_latencies)
  size_t queue_rows_max = 100'000;       // waiting requests of one model, our own bound
  size_t output_bytes_max = 4ull << 30;  // of one run
};

struct ModelIndexEntry {
  std::string name, version, state, reason;  // version and state empty: never loaded
};

struct LoadRequest {
  std::string model;
  std::optional<std::string> config_json;                  // parameter "config"
  std::vector<std::pair<std::string, base::Bytes>> files;  // parameter "file:<version>/<path>" → content
  bool force = false;                                      // reload although nothing changed
};

/// What a banner or a doctor wants to say of a served model.
struct ModelSummary {
  std::string name;
  int64_t version = 0;
  std::string backend, engine, batching, instances, choices;
};

/// The join: models, versions, instances, and a request's way through them. Thread-safe.
class Host {
 public:
  struct Dependencies {
    base::Clock* clock = nullptr;
    observe::Registry* metrics = nullptr;
    observe::Log* log = nullptr;
    std::string engine_folder;  // where engine modules lie; empty: beside the executable
  };

  static base::Result<std::unique_ptr<Host>> Make(HostOptions options, Dependencies dependencies);
  /// Ends at once what Drain left.
  virtual ~Host() = default;

  /// Loads what the control mode asks for. With exit_on_error a failed model is an error that names it.
  virtual base::Status Start() = 0;

  /// The version asked for ("": the highest that is ready). kNotFound with Triton's text otherwise,
  /// kInvalidArgument when `version` is no number that fits.
  virtual base::Result<ModelRef> Find(std::string_view name, std::string_view version) const = 0;
  virtual bool live() const = 0;
  virtual bool ready() const = 0;
  /// The loaded versions of a model, ascending; empty when there is none.
  virtual std::vector<int64_t> Versions(std::string_view name) const = 0;

  /// Checks the request against its model and runs it. Every outcome, refusals too, goes to `sink`,
  /// perhaps before Submit returns. Never blocks.
  virtual void Submit(std::unique_ptr<InferRequest> request, std::unique_ptr<ResponseSink> sink) = 0;

  /// Loading and unloading happen on the host's own threads; `done` is called there.
  virtual void Load(LoadRequest request, std::function<void(base::Status)> done) = 0;
  virtual void Unload(std::string name, bool unload_dependents, std::function<void(base::Status)> done) = 0;
  virtual std::vector<ModelIndexEntry> Index(bool ready_only) const = 0;

  /// Of one model (all its loaded versions, or one), or of all models for an empty name.
  virtual base::Result<std::vector<ModelStatistics>> Statistics(std::string_view name,
                                                                std::string_view version) const = 0;
  virtual std::vector<ModelSummary> Summaries() const = 0;

  /// Readiness drops at once; requests still taken are answered until `EndAdmission`.
  virtual void BeginShutdown() = 0;
  /// From now on new requests are refused (kUnavailable); returns when the running ones have been
  /// answered or `deadline_ns` (monotonic) has passed: the rest is answered with kUnavailable.
  virtual base::Status Drain(int64_t deadline_ns) = 0;
  virtual size_t requests_in_flight() const = 0;
};

}  // namespace stoker::host
