#include "model_manager.h"

#include <algorithm>
#include <set>
#include <utility>

#include <stoker/base/str_cat.h>
#include <stoker/observe/log.h>

namespace stoker::host {
namespace {

using base::StrCat;

constexpr std::string_view kUnloaded = "unloaded";
constexpr size_t kOperationsMax = 1024;  // waiting for one model

base::Status Stopping() {
  return base::Unavailable("the server is stopping; models are no longer loaded or unloaded");
}

base::Status NotPolled(const std::string& name, std::string_view why) {
  return base::Internal(StrCat("failed to load '", name, "', failed to poll from model repository: ", why));
}

base::Status LoadFailed(const std::string& name, std::string_view why) {
  return base::InvalidArgument(StrCat("load failed for model '", name, "': ", why));
}

}  // namespace

bool ModelManager::Record::ready() const {
  return std::any_of(versions.begin(), versions.end(),
                     [](const auto& v) { return v.second.state == State::kReady; });
}

bool ModelManager::Record::forgettable() const {
  if (busy || !problem.empty()) return false;
  return versions.empty() || (transient && std::all_of(versions.begin(), versions.end(), [](const auto& v) {
                                return v.second.state == State::kUnavailable;
                              }));
}

ModelManager::ModelManager(Parts parts)
    : source_(std::move(parts.source)),
      loader_(std::move(parts.loader)),
      clock_(parts.clock),
      log_(parts.log),
      executor_(std::make_unique<base::Executor>(base::ExecutorOptions{
          .name = "host/load", .threads = static_cast<size_t>(std::max(parts.load_threads, 1))})) {}

ModelManager::~ModelManager() = default;

void ModelManager::Load(LoadRequest request, Done done) {
  std::string name = request.model;
  Enqueue(name, {.request = std::move(request), .done = std::move(done)});
}

void ModelManager::LoadWatched(std::string name, Done done) {
  Enqueue(
      name,
      {.watched = true, .request = {.model = name, .config_json = {}, .files = {}}, .done = std::move(done)});
}

void ModelManager::Unload(std::string name, Done done) {
  Enqueue(name, {.unload = true, .request = {}, .done = std::move(done)});
}

void ModelManager::Enqueue(const std::string& name, Operation operation) {
  base::Status refused;
  {
    base::MutexLock lock(&mutex_);
    Record& record = records_[name];
    if (stopping_) {
      refused = Stopping();
    } else if (record.operations.size() >= kOperationsMax) {
      refused = base::ResourceExhausted(StrCat("model '", name, "' has ", record.operations.size(),
                                               " loads and unloads waiting already; send it again later"));
    } else if (record.busy) {
      record.operations.push_back(std::move(operation));
      return;
    } else {
      record.operations.push_back(std::move(operation));
      record.busy = true;
      ++busy_;
      refused = executor_->Submit([self = shared_from_this(), name] { self->Work(name); });
      if (refused.ok()) return;
      operation = std::move(record.operations.back());
      record.operations.pop_back();
      record.busy = false;
      --busy_;
    }
  }
  if (operation.done) operation.done(std::move(refused));
}

// Carries out what waits for one model, in order.
void ModelManager::Work(const std::string& name) {
  for (;;) {
    Operation operation;
    bool stopping = false;
    {
      base::MutexLock lock(&mutex_);
      const auto found = records_.find(name);
      Record& record = found->second;
      if (record.operations.empty()) {
        record.busy = false;
        if (record.forgettable()) records_.erase(found);
        --busy_;
        idle_.NotifyAll();
        return;
      }
      operation = std::move(record.operations.front());
      record.operations.pop_front();
      stopping = stopping_;
    }
    base::Status status = stopping ? Stopping() : Perform(name, operation);
    if (operation.done) operation.done(std::move(status));
  }
}

base::Status ModelManager::Perform(const std::string& name, const Operation& operation) {
  if (operation.unload) return PerformUnload(name);
  const int64_t start = clock_->NowNs();
  base::Status status = PerformLoad(name, operation);
  {
    base::MutexLock lock(&mutex_);
    if (stopping_) return status;  // the log may be gone
  }
  const int64_t ms = (clock_->NowNs() - start) / base::kNsPerMs;
  if (status.ok()) {
    log_->Info("model ready", {{"model", name}, {"load_ms", ms}});
  } else {
    log_->Error("model failed to load", {{"model", name}, {"reason", status.message()}, {"load_ms", ms}});
  }
  return status;
}

base::Result<ModelListing> ModelManager::Look(const std::string& name, const LoadRequest& request) {
  auto listing = source_->Look(name);
  const bool brings_files = request.config_json.has_value() && !request.files.empty();
  if (!listing.ok() && listing.status().code() == base::StatusCode::kNotFound && brings_files) {
    return ModelListing{.name = name, .folder = "", .fingerprint = "", .problem = {}};
  }
  return listing;
}

bool ModelManager::Unchanged(const std::string& name, const LoadRequest& request,
                             const ModelListing& listing) {
  if (request.force || request.config_json.has_value() || !request.files.empty()) return false;
  base::MutexLock lock(&mutex_);
  const Record& record = records_[name];
  return record.ready() && record.loaded_fingerprint == listing.fingerprint;
}

// A configuration that cannot be read leaves everything as it is.
base::Status ModelManager::FailRead(const std::string& name, const Operation& operation,
                                    const base::Status& why, Failure failure) {
  if (operation.watched) {
    base::MutexLock lock(&mutex_);
    Record& record = records_[name];
    if (record.versions.empty()) record.problem = why.message();
    Publish();
  }
  return failure(name, why.message());
}

base::Status ModelManager::PerformLoad(const std::string& name, const Operation& operation) {
  const LoadRequest& request = operation.request;
  auto listing = Look(name, request);
  if (!listing.ok()) return FailRead(name, operation, listing.status(), NotPolled);
  {
    base::MutexLock lock(&mutex_);
    records_[name].seen_fingerprint = listing->fingerprint;
  }
  if (!listing->problem.ok()) return FailRead(name, operation, listing->problem, NotPolled);
  if (Unchanged(name, request, *listing)) return base::OkStatus();
  const ModelOverrides overrides{
      .config_json = request.config_json.has_value() ? &*request.config_json : nullptr,
      .files = &request.files};
  const auto definition = source_->Read(*listing, overrides);
  if (!definition.ok()) {
    // What the configuration names, such as its engine, is not there: then it was read, but not loaded.
    const bool read = definition.status().code() == base::StatusCode::kNotFound;
    return FailRead(name, operation, definition.status(), read ? LoadFailed : NotPolled);
  }
  for (const std::string& warning : definition->config.warnings) {
    log_->Warning("model configuration", {{"model", name}, {"warning", warning}});
  }
  if (definition->versions.empty()) {
    return FailRead(
        name, operation,
        base::InvalidArgument(
            StrCat("at least one version must be available under the version policy of model '", name, "'")),
        LoadFailed);
  }
  std::vector<NewVersion> loaded;
  STOKER_RETURN_IF_ERROR(LoadVersions(*definition, request.force, &loaded));
  Install(name, listing->fingerprint, std::move(loaded));
  return base::OkStatus();
}

base::Status ModelManager::LoadVersions(const ModelDefinition& definition, bool force,
                                        std::vector<NewVersion>* loaded) {
  const std::string& name = definition.config.name;
  {
    base::MutexLock lock(&mutex_);
    Record& record = records_[name];
    record.problem.clear();
    for (const VersionDefinition& version : definition.versions) {
      Version& place = record.versions[version.version];
      if (place.state == State::kReady) continue;
      place.state = State::kLoading;
      place.reason.clear();
    }
    Publish();
  }
  std::string failures;
  for (const VersionDefinition& version : definition.versions) {
    NewVersion made{.version = version.version, .generation = 0, .model = nullptr};
    auto model = LoadVersion(definition, version, force, &made);
    if (model.ok()) {
      made.model = std::move(*model);
      loaded->push_back(std::move(made));
      continue;
    }
    base::StrAppend(&failures, "version ", version.version,
                    " is at UNAVAILABLE state: ", model.status().message(), ";");
    MarkFailed(name, version.version, model.status().message());
  }
  if (failures.empty()) return base::OkStatus();
  for (const NewVersion& other : *loaded) {
    MarkFailed(name, other.version, "another version of the model failed to load");
  }
  return LoadFailed(name, failures);
}

base::Result<ServedRef> ModelManager::LoadVersion(const ModelDefinition& definition,
                                                  const VersionDefinition& version, bool force,
                                                  NewVersion* loaded) {
  const std::string& name = definition.config.name;
  const ServedRef old = Current(name, version.version);
  {
    base::MutexLock lock(&mutex_);
    loaded->generation = ++generations_;
  }
  auto gone = [weak = weak_from_this(), name, number = version.version, generation = loaded->generation] {
    if (const auto self = weak.lock()) self->OnGone(name, number, generation);
  };
  if (old != nullptr && !force && old->SameAs(definition, version)) {
    return loader_->Adjust(*old, definition, version, std::move(gone));
  }
  return loader_->Load(definition, version, std::move(gone));
}

// The version did not load: one that serves already goes on.
void ModelManager::MarkFailed(const std::string& name, int64_t version, const std::string& reason) {
  base::MutexLock lock(&mutex_);
  Version& place = records_[name].versions[version];
  if (place.state == State::kReady) return;
  place.state = State::kUnavailable;
  place.reason = reason;
  Publish();
}

// Swaps the new versions in and takes those away that are no longer wanted.
void ModelManager::Install(const std::string& name, const std::string& fingerprint,
                           std::vector<NewVersion> loaded) {
  std::vector<ServedRef> old;  // dropped after the mutex
  base::MutexLock lock(&mutex_);
  if (stopping_) return;
  Record& record = records_[name];
  record.loaded_fingerprint = fingerprint;
  record.transient = false;
  std::set<int64_t> wanted;
  for (NewVersion& made : loaded) {
    wanted.insert(made.version);
    Version& place = record.versions[made.version];
    old.push_back(std::exchange(place.model, std::move(made.model)));
    place.generation = made.generation;
    place.state = State::kReady;
    place.reason.clear();
  }
  for (auto& [number, place] : record.versions) {
    if (wanted.contains(number) || place.state != State::kReady) continue;
    old.push_back(std::move(place.model));
    place.model = nullptr;
    place.state = State::kUnloading;
  }
  Publish();
}

base::Status ModelManager::PerformUnload(const std::string& name) {
  std::vector<ServedRef> old;
  const bool gone = source_->Look(name).status().code() == base::StatusCode::kNotFound;
  base::MutexLock lock(&mutex_);
  Record& record = records_[name];
  record.transient = gone;
  record.loaded_fingerprint.clear();
  record.problem.clear();
  for (auto& [number, place] : record.versions) {
    if (place.state == State::kReady) {
      old.push_back(std::move(place.model));
      place.model = nullptr;
      place.state = State::kUnloading;
    } else if (place.state != State::kUnloading) {
      place.state = State::kUnavailable;
      place.reason = kUnloaded;
    }
  }
  Publish();
  return base::OkStatus();
}

void ModelManager::OnGone(const std::string& name, int64_t version, uint64_t generation) {
  base::MutexLock lock(&mutex_);
  const auto record = records_.find(name);
  if (record == records_.end()) return;
  const auto place = record->second.versions.find(version);
  if (place == record->second.versions.end() || place->second.generation != generation) return;
  if (place->second.state != State::kUnloading) return;
  place->second.state = State::kUnavailable;
  place->second.reason = kUnloaded;
  if (record->second.forgettable()) records_.erase(record);
  Publish();
}

ServedRef ModelManager::Current(const std::string& name, int64_t version) const {
  base::MutexLock lock(&mutex_);
  const auto record = records_.find(name);
  if (record == records_.end()) return nullptr;
  const auto place = record->second.versions.find(version);
  return place == record->second.versions.end() ? nullptr : place->second.model;
}

void ModelManager::Publish() {
  auto table = std::make_shared<ModelTable>();
  bool all_ready = true;
  for (const auto& [name, record] : records_) {
    all_ready &= record.problem.empty();
    if (record.versions.empty()) continue;
    ModelTable::Entry& entry = table->models[name];
    for (const auto& [number, place] : record.versions) {
      if (place.state == State::kReady) {
        entry.ready.emplace_back(number, place.model);
      } else {
        entry.other.push_back(number);
        all_ready &= place.state == State::kUnloading || place.reason == kUnloaded;
      }
    }
  }
  all_ready_.store(all_ready, std::memory_order_release);
  table_.Publish(table);
}

base::Status ModelManager::Poll() {
  STOKER_ASSIGN_OR_RETURN(const auto listings, source_->Scan());
  std::vector<std::string> changed, removed;
  {
    base::MutexLock lock(&mutex_);
    std::set<std::string, std::less<>> there;
    for (const ModelListing& listing : listings) {
      there.insert(listing.name);
      const auto record = records_.find(listing.name);
      const bool known = record != records_.end();
      if (known && (record->second.busy || record->second.seen_fingerprint == listing.fingerprint)) continue;
      changed.push_back(listing.name);
    }
    for (const auto& [name, record] : records_) {
      if (!there.contains(name) && !record.busy && (record.ready() || !record.problem.empty()))
        removed.push_back(name);
    }
  }
  for (const std::string& name : changed) LoadWatched(name, nullptr);
  for (const std::string& name : removed) Enqueue(name, {.unload = true, .request = {}, .done = nullptr});
  return base::OkStatus();
}

std::vector<ModelIndexEntry> ModelManager::Index(bool ready_only) const {
  static constexpr std::string_view kNames[] = {"LOADING", "READY", "UNLOADING", "UNAVAILABLE"};
  const auto names = source_->Names();
  std::vector<ModelIndexEntry> out;
  base::MutexLock lock(&mutex_);
  std::set<std::string, std::less<>> all;
  if (names.ok()) all.insert(names->begin(), names->end());
  for (const auto& [name, record] : records_) {
    if (record.ready()) all.insert(name);
  }
  for (const std::string& name : all) {
    const auto record = records_.find(name);
    if (record == records_.end() || record->second.versions.empty()) {
      const bool failed = record != records_.end() && !record->second.problem.empty();
      if (!ready_only)
        out.push_back({name, "", failed ? "UNAVAILABLE" : "", failed ? record->second.problem : ""});
      continue;
    }
    for (const auto& [number, place] : record->second.versions) {
      if (ready_only && place.state != State::kReady) continue;
      out.push_back(
          {name, StrCat(number), std::string(kNames[static_cast<size_t>(place.state)]), place.reason});
    }
  }
  return out;
}

std::vector<ServedRef> ModelManager::Loaded() const {
  std::vector<ServedRef> out;
  base::MutexLock lock(&mutex_);
  for (const auto& [name, record] : records_) {
    for (const auto& [number, place] : record.versions) {
      if (place.model != nullptr) out.push_back(place.model);
    }
  }
  return out;
}

bool ModelManager::Shutdown(int64_t deadline_ns) {
  std::vector<ServedRef> old;
  {
    base::MutexLock lock(&mutex_);
    stopping_ = true;
    while (busy_ > 0) {
      const int64_t left = deadline_ns - clock_->NowNs();
      if (left <= 0) break;
      idle_.WaitFor(&mutex_, left);
    }
    if (busy_ > 0) {
      static_cast<void>(executor_.release());
      for (auto& [name, record] : records_) {
        for (auto& [number, place] : record.versions) old.push_back(std::move(place.model));
      }
      table_.Publish(std::make_shared<const ModelTable>());
      return false;
    }
    for (auto& [name, record] : records_) {
      for (auto& [number, place] : record.versions) old.push_back(std::move(place.model));
    }
    records_.clear();
    table_.Publish(std::make_shared<const ModelTable>());
  }
  old.clear();
  executor_->Shutdown();
  return true;
}

}  // namespace stoker::host
