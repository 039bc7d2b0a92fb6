#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <stoker/batching/dynamic.h>

#include "dynamic/request_queue.h"

namespace stoker::batching::internal {

/// Lays out one batch along the line and says whether, where and why it may end. Changes nothing in
/// the queue.
class BatchFormer {
 public:
  explicit BatchFormer(const DynamicConfig& config);

  struct End {
    size_t count;  ///< the first so many of entries()
    CloseReason reason;
  };

  /// The batch that `leader` would run in: its shape's line from the front (the whole line without
  /// look_past_shapes). `leader_first` puts the leader before that line.
  /// nullopt: the batch should wait for more.
  std::optional<End> Form(const RequestQueue& queue, Entry* leader, bool leader_first, int64_t now);

  /// The entries of the last Form, in order.
  const std::vector<Entry*>& entries() const { return entries_; }

  /// Every request is its own batch.
  bool alone() const { return alone_; }
  /// How long a free instance may wait for company.
  int64_t delay_ns() const { return delay_ns_; }
  /// A group with fewer rows cannot end a batch but by waiting.
  int64_t ample_rows() const { return alone_ ? kNever : preferred_.front(); }

 private:
  template <typename List>
  void Reach(Walker<List> line, Entry* first);
  bool Consider(Entry* entry);
  std::optional<End> FindEnd(int64_t now) const;

  const bool alone_;
  const bool look_past_shapes_;
  const int64_t delay_ns_;
  const int64_t max_rows_;
  const std::vector<int64_t> preferred_;  ///< ascending, not empty

  std::vector<Entry*> entries_;
  int64_t rows_ = 0;
  size_t preferred_count_ = 0;  ///< how many entries make a preferred batch; 0: none does
  int64_t oldest_ns_ = kNever;
  int64_t hold_ns_ = kNever;
  bool overflows_ = false;    ///< the next in line would pass max_batch_size
  bool other_shape_ = false;  ///< the next in line has another shape
};

}  // namespace stoker::batching::internal
