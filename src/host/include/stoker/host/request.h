#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include <stoker/base/mutex.h>
#include <stoker/base/status.h>
#include <stoker/tensor/tensor.h>

namespace stoker::host {

class Model;
/// A pin on one version of a model: shared because requests in flight keep an unloaded version
/// alive until their last answer.
using ModelRef = std::shared_ptr<const Model>;

/// A request or response parameter.
using ParameterValue = std::variant<bool, int64_t, uint64_t, double, std::string>;
struct Parameter {
  std::string name;
  ParameterValue value;
};

/// Says that nobody waits for a request any more. Shared by the door and the host. Thread-safe.
/// Hold no lock in Cancel that the request's ResponseSink takes, and hold a reference meanwhile.
class Cancellation {
 public:
  /// Idempotent; runs the hook, if one is set, on the calling thread: the request's final answer
  /// (kCancelled) may come before it returns.
  void Cancel();
  bool cancelled() const { return cancelled_.load(std::memory_order_acquire); }
  /// The host's way to hear of it; called at once when already cancelled. Null removes the hook and
  /// waits for a running one.
  void SetHook(std::function<void()> hook);

 private:
  std::atomic<bool> cancelled_{false};
  base::Mutex mutex_;
  base::CondVar done_;
  std::function<void()> hook_ GUARDED_BY(mutex_);
  std::thread::id running_ GUARDED_BY(mutex_);  // the thread that runs the hook
};

/// A client's name for a stream of requests that must reach one instance in order; nothing for
/// ordinary requests.
using CorrelationId = std::variant<std::monostate, uint64_t, std::string>;

struct InferInput {
  std::string_view name;  // lives as long as the request (in `owner` or in static memory)
  tensor::Tensor tensor;  // shape as the client sent it (batch dimension included)
};

/// What a client asked, in our types: made by a door, handed to Host::Submit, not changed after.
struct InferRequest {
  ModelRef model;
  std::string id;
  CorrelationId correlation;
  bool sequence_start = false;
  bool sequence_end = false;
  uint64_t priority = 0;              // 0: the model's default
  uint64_t timeout_us = 0;            // the protocol's queue timeout; 0: none
  int64_t deadline_ns = 0;            // monotonic; from grpc-timeout; 0: none
  int64_t received_ns = 0;            // monotonic; when the door began to read it
  std::vector<Parameter> parameters;  // what the model may see: reserved ones are taken out
  std::vector<InferInput> inputs;
  std::vector<std::string_view> requested_outputs;  // empty: all
  std::shared_ptr<const void> owner;                // keeps names alive (tensors own their bytes)
  std::shared_ptr<Cancellation> cancellation;       // may be null
};

/// Nanoseconds that a request spent in each step; what statistics and receipts are made of.
struct RequestTiming {
  int64_t queue_ns = 0;
  int64_t input_ns = 0;
  int64_t infer_ns = 0;
  int64_t output_ns = 0;
  int64_t batch_rows = 0;  // of the run that it was part of
};

struct InferOutput {
  size_t index = 0;       // into Model::outputs()
  tensor::Tensor tensor;  // shape as the client shall see it (batch dimension included)
};

/// One answer of 0..n to a request.
struct InferResponse {
  base::Status status;               // an error: outputs are empty
  std::vector<InferOutput> outputs;  // only requested ones
  std::vector<Parameter> parameters;
  bool final = true;   // no further one follows
  bool empty = false;  // final marker of a stream without content
  RequestTiming timing;
};

/// Takes the answers of one request: one after another, on any thread, exactly one of them final.
/// Must not block. Destroyed after the final one.
class ResponseSink {
 public:
  virtual ~ResponseSink() = default;
  virtual void OnResponse(InferResponse response) = 0;
};

}  // namespace stoker::host
