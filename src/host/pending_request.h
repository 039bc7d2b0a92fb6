#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include <stoker/batching/dynamic.h>
#include <stoker/batching/release_order.h>
#include <stoker/host/request.h>

#include "request_check.h"

namespace stoker::host {

/// Where a request is; changes under the scheduler's mutex only.
enum class PendingState : uint8_t { kNew, kQueued, kRunning, kLeaving };

/// A checked request on its way. Belongs to the scheduler while it waits and to one instance thread
/// while it runs; its sink belongs to whoever wins ClaimSink.
class PendingRequest {
 public:
  PendingRequest(std::unique_ptr<InferRequest> request, std::unique_ptr<ResponseSink> sink)
      : request_(std::move(request)), sink_(std::move(sink)) {}

  InferRequest& request() { return *request_; }
  const InferRequest& request() const { return *request_; }

  /// The right to answer goes to the first caller; null for everybody after. Thread-safe.
  std::unique_ptr<ResponseSink> ClaimSink() {
    return claimed_.exchange(true, std::memory_order_acq_rel) ? nullptr : std::move(sink_);
  }

  CheckedRequest checked;
  int64_t started_ns = 0;  // when the host (or the door, where it says so) first saw it
  int64_t queued_ns = 0;   // when it began to wait
  uint64_t shape_key = 0;
  batching::ReleaseOrder::Position position = 0;  // with preserve_ordering
  PendingState state = PendingState::kNew;
  bool hooked = false;  // its cancellation holds a hook of the scheduler's
  InferResponse held;   // an answer that waits for its turn

 private:
  std::unique_ptr<InferRequest> request_;
  std::unique_ptr<ResponseSink> sink_;
  std::atomic<bool> claimed_{false};
};

}  // namespace stoker::host
