#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include <stoker/base/mutex.h>
#include <stoker/base/status.h>

#include "load_priority.h"
#include "model_source.h"
#include "model_table.h"
#include "reaper.h"

namespace stoker::host {

/// Makes served versions: engine model, instances, warm-up, statistics. Thread-safe; Load takes long.
class VersionLoader {
 public:
  /// All of these outlive it.
  VersionLoader(const Services& services, bool latency_counters, Reaper* reaper);

  /// Loads a version on the calling thread, at the priority of loading. `gone` is called once the
  /// version has been freed.
  base::Result<ServedRef> Load(const ModelDefinition& definition, const VersionDefinition& version,
                               std::function<void()> gone);
  /// The running core of `old` under a configuration that differs in the number of instances alone.
  base::Result<ServedRef> Adjust(const ServedModel& old, const ModelDefinition& definition,
                                 const VersionDefinition& version, std::function<void()> gone);

 private:
  std::shared_ptr<VersionStatistics> StatisticsOf(const ModelConfig& config, int64_t version);

  const Services services_;
  const bool latency_counters_;
  Reaper* const reaper_;
  LoadPriority priority_;
  base::Mutex mutex_;
  std::map<std::string, std::weak_ptr<VersionStatistics>> statistics_ GUARDED_BY(mutex_);  // of live versions
};

}  // namespace stoker::host
