#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <stoker/base/mutex.h>
#include <stoker/base/status.h>
#include <stoker/observe/metrics.h>

#include "served_model.h"

namespace stoker::host {

using ServedRef = std::shared_ptr<const ServedModel>;  // shared: see ModelRef

/// What Find needs, as of one moment; never changed once published.
struct ModelTable {
  struct Entry {
    std::vector<std::pair<int64_t, ServedRef>> ready;  // ascending
    std::vector<int64_t> other;                        // known, but not ready
  };
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  std::unordered_map<std::string, Entry, Hash, std::equal_to<>> models;

  /// The version asked for, the highest ready one for an empty text. Texts are Triton's.
  base::Result<ServedRef> Find(std::string_view name, std::string_view version) const;
};

/// Holds the current table; each thread reads through a shard of its own, so that readers do not meet.
/// Thread-safe.
class PublishedTable {
 public:
  PublishedTable() { Publish(std::make_shared<const ModelTable>()); }

  void Publish(const std::shared_ptr<const ModelTable>& table) {
    for (Shard& shard : shards_) {
      std::shared_ptr<const ModelTable> old = table;
      base::MutexLock lock(&shard.mutex);
      shard.table.swap(old);
    }
  }

  /// Calls `visit(const ModelTable&)` and returns what it returns. Keep it short.
  template <typename Visit>
  auto Read(Visit&& visit) const {
    Shard& shard = shards_[observe::ThreadShard() % kShards];
    base::MutexLock lock(&shard.mutex);
    return visit(*shard.table);
  }

 private:
  static constexpr size_t kShards = 8;
  struct alignas(64) Shard {
    base::Mutex mutex;
    std::shared_ptr<const ModelTable> table GUARDED_BY(mutex);
  };
  mutable std::array<Shard, kShards> shards_;
};

}  // namespace stoker::host
