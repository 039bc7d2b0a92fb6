#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <stoker/base/status.h>
#include <stoker/tensor/tensor.h>

namespace stoker::engines {

/// One input or output of a model as the engine sees it. `dims` excludes the batch dimension when
/// the model has one (max_batch_size > 0); -1 is any extent.
struct TensorSpec {
  std::string name;
  tensor::DataType type = tensor::DataType::kInvalid;
  tensor::Shape dims;
  bool optional = false;
  bool ragged = false;
  bool from_host = false;  // no request gives this input: the host makes it for each batch (batch_input)
};

/// Where a model lies and how it is to be run: plain values from the model's configuration.
struct ModelSpec {
  std::string name;
  int64_t version = 1;
  std::string version_path;                       // folder of this version
  std::string filename;                           // inside it; empty: the engine's default names
  std::string backend, platform;                  // as configured, Triton's names
  int64_t max_batch_size = 0;                     // 0: no batch dimension
  std::vector<TensorSpec> inputs, outputs;        // complete when given to Load
  std::map<std::string, std::string> parameters;  // config parameters, key → string_value
  int instance_count = 0;  // as configured; 0: not configured, the engine measures and advises
  int cores = 1;           // that all instances of this model may use together
  std::vector<int64_t> batch_sizes_wanted;  // preferred sizes, to tune or compile for; may be empty
};

/// What a model file says of itself, full shapes as stored (batch dimension included).
struct ModelDescription {
  std::vector<TensorSpec> inputs, outputs;
  /// The first dimension of every input and output is dynamic or can be made so: batching is possible.
  bool batchable = false;
  int64_t batch_hint = 0;  // fixed first dimension common to all, 0 when dynamic
};

/// Memory that an engine writes its outputs to. Implemented by the host; used during Run only, by
/// the calling thread only.
class OutputSink {
 public:
  virtual ~OutputSink() = default;
  /// Memory for output `index` (into ModelSpec::outputs) with the full shape, batch dimension first;
  /// `bytes` is its size. 64-byte aligned. Null when the size is beyond the cap: then fail the Run.
  virtual std::byte* Allocate(size_t index, const tensor::Shape& shape, size_t bytes) = 0;
  /// Gives output `index` as bytes that exist already (an input passed through, or the engine's own).
  virtual void Adopt(size_t index, tensor::Tensor tensor) = 0;
  /// False when nobody asked for that output: it need not be given.
  virtual bool Wanted(size_t index) const = 0;
};

/// A finished batch: one tensor an input, the rows of all requests one after another.
struct Batch {
  int64_t rows = 1;                        // batch dimension; 1 for models without one
  std::span<const tensor::Tensor> inputs;  // in the order of ModelSpec::inputs; kInvalid type: absent
  std::span<const int64_t> request_rows;   // rows of each request, in order; they sum up to `rows`
};

struct InstanceTraits {
  /// Run surely takes less than about 100 µs whatever the input and never blocks: the host may run
  /// it on the thread that received the request, after measuring that it is so.
  bool run_inline = false;
  /// Nothing is gained by gathering requests: the host may call Run once a request of a batch, with
  /// that request's own bytes, and count them as one execution. Ragged inputs need this trait.
  bool request_wise = false;
};

/// One loaded copy of a model that runs one batch at a time. Used by one thread at a time.
class EngineInstance {
 public:
  virtual ~EngineInstance() = default;
  /// Runs a batch. Input bytes are at least as aligned as the model's `input_alignment`. On success
  /// every wanted output was given. Does not throw; a failure harms neither the instance nor others.
  virtual base::Status Run(const Batch& batch, OutputSink* outputs) = 0;
};

/// A model loaded by an engine: weights, compiled code. Thread-safe. Outlives its instances.
class EngineModel {
 public:
  virtual ~EngineModel() = default;
  virtual base::Result<std::unique_ptr<EngineInstance>> NewInstance(int index) = 0;
  virtual InstanceTraits traits() const { return {}; }
  /// Whether the values of one request (inputs as for Run) can be computed at all: called before it is
  /// put into a batch, whose other requests a refusal must not touch. Cheap; shapes and types are
  /// checked already. A Run with such values fails as a whole.
  virtual base::Status CheckRequest(std::span<const tensor::Tensor> inputs) const {
    static_cast<void>(inputs);
    return base::OkStatus();
  }
  virtual size_t input_alignment() const { return 1; }
  /// How many instances run best at once, by the engine's own measurement at load; the host makes
  /// that many unless the configuration sets a count.
  virtual int instances_advised() const { return 1; }
  /// Rows beyond which a batch gains nothing, by the engine's own measurement at load; 0: more is better as
  /// far as measured. The host stops there unless the configuration names preferred sizes.
  virtual int64_t rows_advised() const { return 0; }
  /// What the engine chose and why, for the banner and the log: "4 threads, batch compiled for 1,2,4,8".
  virtual std::string choices() const { return ""; }
  /// Resident bytes of the weights as far as known; 0 when not.
  virtual size_t memory_bytes() const { return 0; }
};

/// A way to execute models. Thread-safe; stateless apart from what it opened.
class Engine {
 public:
  virtual ~Engine() = default;
  virtual std::string_view name() const = 0;
  /// Whether it runs models configured with this Triton backend or platform name.
  virtual bool Serves(std::string_view backend, std::string_view platform) const = 0;
  /// File names that make a version folder one of this engine's, in order of preference.
  virtual std::span<const std::string_view> default_filenames() const = 0;
  /// The backend name to complete a configuration with that leaves it out, for that file.
  virtual std::string_view backend_for(std::string_view filename) const = 0;
  /// Config parameters (ModelSpec::parameters) it understands, its own "stoker.…" too. A model with
  /// another "stoker.…" is refused; other keys that it does not know warn.
  virtual std::span<const std::string_view> parameters() const { return {}; }
  /// Reads the model's own description without compiling it. `spec` has at least the paths.
  virtual base::Result<ModelDescription> Describe(const ModelSpec& spec) = 0;
  /// Loads it. Errors tell file and reason. May take long; never called on an I/O thread.
  virtual base::Result<std::unique_ptr<EngineModel>> Load(const ModelSpec& spec) = 0;
};

}  // namespace stoker::engines
