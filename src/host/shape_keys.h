#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>

namespace stoker::host {

/// Gives each shape signature in use a number of its own: equal numbers mean equal signatures, never a
/// mere hash. Holds only what waiting requests use, so it is as bounded as the queue. Not thread-safe.
class ShapeKeys {
 public:
  /// The number of `signature`, until as many calls of Release.
  uint64_t Acquire(std::string signature) {
    const auto [entry, fresh] = by_signature_.try_emplace(std::move(signature));
    if (fresh) {
      entry->second.key = next_++;
      by_key_[entry->second.key] = &*entry;
    }
    ++entry->second.users;
    return entry->second.key;
  }

  void Release(uint64_t key) {
    const auto found = by_key_.find(key);
    if (found == by_key_.end() || --found->second->second.users > 0) return;
    by_signature_.erase(by_signature_.find(found->second->first));
    by_key_.erase(found);
  }

  size_t size() const { return by_signature_.size(); }

 private:
  struct Use {
    uint64_t key = 0;
    size_t users = 0;
  };
  std::unordered_map<std::string, Use> by_signature_;
  std::unordered_map<uint64_t, std::pair<const std::string, Use>*> by_key_;
  uint64_t next_ = 1;  // 0 is the key of requests that cannot differ
};

}  // namespace stoker::host
