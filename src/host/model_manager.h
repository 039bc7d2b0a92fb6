#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <stoker/base/executor.h>
#include <stoker/base/mutex.h>
#include <stoker/base/status.h>
#include <stoker/host/host.h>

#include "model_source.h"
#include "model_table.h"
#include "version_loader.h"

namespace stoker::host {

/// Which models are loaded, and how they come and go. Operations on one model follow each other; those
/// on different models run side by side on `load_threads` threads. A load makes the new versions ready
/// before it takes the old ones away, and leaves the old ones when it fails.
///
/// Thread-safe. One mutex guards the records; sources and engines are called without it. Shared with its
/// own tasks, so that one stuck in an engine does not use freed memory.
class ModelManager : public std::enable_shared_from_this<ModelManager> {
 public:
  struct Parts {
    std::unique_ptr<ModelSource> source;
    std::unique_ptr<VersionLoader> loader;
    base::Clock* clock = nullptr;
    observe::Log* log = nullptr;
    int load_threads = 1;
  };
  explicit ModelManager(Parts parts);
  ~ModelManager();

  using Done = std::function<void(base::Status)>;
  void Load(LoadRequest request, Done done);
  /// The same for what is to be served whenever it is there: until it is, all_ready is false.
  void LoadWatched(std::string name, Done done);
  void Unload(std::string name, Done done);
  /// Compares the folders with what was loaded from them; loads and unloads what differs. Used by polling.
  base::Status Poll();

  ModelSource& source() { return *source_; }
  const PublishedTable& table() const { return table_; }
  std::vector<ModelIndexEntry> Index(bool ready_only) const;
  std::vector<ServedRef> Loaded() const;
  /// Every model that was asked for is ready or was unloaded on purpose.
  bool all_ready() const { return all_ready_.load(std::memory_order_acquire); }

  /// Refuses further operations, lets those under way end (until `deadline_ns` at most) and drops all
  /// models. False when a load is still under way: then what it uses must stay alive for good.
  bool Shutdown(int64_t deadline_ns);

 private:
  enum class State : uint8_t { kLoading, kReady, kUnloading, kUnavailable };
  struct Version {
    State state = State::kLoading;
    std::string reason;
    ServedRef model;          // while ready
    uint64_t generation = 0;  // of the model that was last in this place
  };
  struct Operation {
    bool unload = false;
    bool watched = false;  // by polling: a failure to read counts against readiness
    LoadRequest request;
    Done done;
  };
  struct Record {
    std::map<int64_t, Version> versions;
    std::string loaded_fingerprint;  // of the files that the ready versions came from
    std::string seen_fingerprint;    // of the last attempt
    std::string problem;             // why the configuration could not be read; empty: it could
    std::deque<Operation> operations;
    bool busy = false;       // an operation is being carried out
    bool transient = false;  // unloaded and not in the repository: forget it once it is gone
    bool ready() const;
    bool forgettable() const;
  };
  struct NewVersion {
    int64_t version = 0;
    uint64_t generation = 0;
    ServedRef model;
  };
  using Records = std::map<std::string, Record, std::less<>>;

  void Enqueue(const std::string& name, Operation operation);
  void Work(const std::string& name);
  base::Status Perform(const std::string& name, const Operation& operation);
  base::Status PerformLoad(const std::string& name, const Operation& operation);
  base::Status PerformUnload(const std::string& name);
  using Failure = base::Status (*)(const std::string& model, std::string_view why);
  base::Status FailRead(const std::string& name, const Operation& operation, const base::Status& why,
                        Failure failure);
  bool Unchanged(const std::string& name, const LoadRequest& request, const ModelListing& listing);
  base::Result<ModelListing> Look(const std::string& name, const LoadRequest& request);
  base::Status LoadVersions(const ModelDefinition& definition, bool force, std::vector<NewVersion>* loaded);
  base::Result<ServedRef> LoadVersion(const ModelDefinition& definition, const VersionDefinition& version,
                                      bool force, NewVersion* loaded);
  void MarkFailed(const std::string& name, int64_t version, const std::string& reason);
  void Install(const std::string& name, const std::string& fingerprint, std::vector<NewVersion> loaded);
  void OnGone(const std::string& name, int64_t version, uint64_t generation);
  ServedRef Current(const std::string& name, int64_t version) const;
  void Publish() REQUIRES(mutex_);

  const std::unique_ptr<ModelSource> source_;
  const std::unique_ptr<VersionLoader> loader_;
  base::Clock* const clock_;
  observe::Log* const log_;
  PublishedTable table_;
  std::atomic<bool> all_ready_{true};

  mutable base::Mutex mutex_;
  base::CondVar idle_;
  Records records_ GUARDED_BY(mutex_);
  size_t busy_ GUARDED_BY(mutex_) = 0;  // records with an operation under way or queued
  bool stopping_ GUARDED_BY(mutex_) = false;
  uint64_t generations_ GUARDED_BY(mutex_) = 0;
  std::unique_ptr<base::Executor> executor_;  // leaked with a stuck load
};

}  // namespace stoker::host
