#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include <openvino/runtime/infer_request.hpp>

#include <stoker/base/str_cat.h>

#include "openvino/executable.h"

namespace stoker::engines::internal {
namespace {

using tensor::DataType;
using tensor::Shape;

// Rows that one inference takes: `count` of the batch from `first`, in a variant of `size` rows.
struct Chunk {
  int64_t first = 0;
  int64_t count = 0;
  size_t variant = 0;
  int64_t size = 0;
};

// An output whose shape or memory is not known before it was computed, chunk by chunk.
struct Gathered {
  Shape shape;
  std::string bytes;
};

// What a port of a request points to. Memory comes from a pool and often is the same as last time.
struct Bound {
  const std::byte* data = nullptr;
  Shape shape;
};

// The infer request of a variant and the memory that outputs go to which nobody asked for.
struct Slot {
  ov::InferRequest request;
  std::vector<ov::Tensor> own_outputs;  // by network output
  std::vector<Bound> inputs, outputs;   // by position in the configuration
};

ov::Shape ToOv(const Shape& shape) {
  ov::Shape out;
  out.reserve(shape.rank());
  for (const int64_t dim : shape) out.push_back(static_cast<size_t>(dim));
  return out;
}

Shape FromOv(const ov::Shape& shape) {
  Shape out;
  for (const size_t dim : shape) out.Append(static_cast<int64_t>(dim));
  return out;
}

// OpenVINO refuses null pointers, also for tensors without elements.
void* Pointer(const std::byte* data) {
  alignas(64) static std::byte nothing[64] = {};
  return const_cast<std::byte*>(data == nullptr ? nothing : data);
}

// Whether all elements of 8 bytes, read as T, lie within 32 bits with a sign.
template <typename T>
bool FitsInt32(std::span<const std::byte> bytes) {
  uint64_t beyond = 0;
  for (size_t i = 0; i + sizeof(T) <= bytes.size(); i += sizeof(T)) {
    T value;
    std::memcpy(&value, bytes.data() + i, sizeof(T));
    // A signed value fits exactly when adding 2^31 leaves the upper half empty.
    beyond |= std::is_signed_v<T> ? (static_cast<uint64_t>(value) + (uint64_t{1} << 31)) >> 32
                                  : static_cast<uint64_t>(value) >> 31;
  }
  return beyond == 0;
}

class OpenvinoInstance final : public EngineInstance {
 public:
  explicit OpenvinoInstance(const Executable& executable)
      : executable_(executable),
        network_(executable.network),
        slots_(executable.variants.size()),
        memory_(network_.outputs.size()),
        gathered_(network_.outputs.size()) {
    for (size_t i = 0; i < slots_.size(); ++i) Renew(i);
  }

  base::Status Run(const Batch& batch, OutputSink* outputs) override {
    STOKER_RETURN_IF_ERROR(CheckInputs(batch));
    STOKER_RETURN_IF_ERROR(PrepareOutputs(outputs));
    size_t running = 0;
    try {
      for (int64_t first = 0; first < rows_;) {
        const Chunk chunk = NextChunk(first);
        running = chunk.variant;
        STOKER_RETURN_IF_ERROR(RunChunk(batch, chunk, outputs));
        first += chunk.count;
      }
      return FinishOutputs(outputs);
    } catch (const std::exception& exception) {
      const base::Status failed =
          base::Internal(base::StrCat("OpenVINO failed to run ", network_.file, ": ", Reason(exception)));
      return RenewAfterFailure(running, failed);
    }
  }

 private:
  void Renew(size_t variant) {
    ov::CompiledModel compiled = executable_.variants[variant].compiled;
    Slot& slot = slots_[variant];
    slot.request = compiled.create_infer_request();
    slot.own_outputs.clear();
    slot.inputs.assign(network_.inputs.size(), {});
    slot.outputs.assign(network_.outputs.size(), {});
    for (size_t i = 0; i < compiled.outputs().size(); ++i)
      slot.own_outputs.push_back(slot.request.get_output_tensor(i));
  }

  // A request that failed half-way is replaced, so that nothing of it reaches the next run.
  base::Status RenewAfterFailure(size_t variant, base::Status failed) {
    try {
      Renew(variant);
    } catch (const std::exception& exception) {
      return failed.WithContext(
          base::StrCat("the instance cannot be renewed (", Reason(exception), ") after a failure"));
    }
    return failed;
  }

  base::Status CheckInputs(const Batch& batch) {
    rows_ = network_.batched ? batch.rows : 1;
    for (size_t i = 0; i < network_.inputs.size(); ++i) {
      const Port& port = network_.inputs[i];
      const tensor::Tensor& input = batch.inputs[i];
      if (input.type != port.type) {
        return base::InvalidArgument(base::StrCat("input '", port.name, "' is ", ProtocolName(input.type),
                                                  ", expected ", ProtocolName(port.type)));
      }
      if (network_.batched && (input.shape.rank() == 0 || input.shape[0] != rows_)) {
        return base::InvalidArgument(base::StrCat("input '", port.name, "' has the shape ",
                                                  input.shape.ToString(), ", expected ", rows_, " rows"));
      }
    }
    return CheckValues(network_, batch.inputs);
  }

  base::Status PrepareOutputs(OutputSink* outputs) {
    for (size_t i = 0; i < network_.outputs.size(); ++i) {
      const Port& port = network_.outputs[i];
      memory_[i] = nullptr;
      gathered_[i] = {};
      if (!port.shape_known || !outputs->Wanted(i)) continue;
      const Shape shape = network_.batched ? port.dims.WithLeading(rows_) : port.dims;
      STOKER_ASSIGN_OR_RETURN(memory_[i], AllocateOutput(i, shape, outputs));
    }
    return base::OkStatus();
  }

  base::Result<std::byte*> AllocateOutput(size_t index, const Shape& shape, OutputSink* outputs) const {
    const Port& port = network_.outputs[index];
    STOKER_ASSIGN_OR_RETURN(const int64_t count, shape.ElementCount(port.element.size()));
    const size_t bytes = static_cast<size_t>(count) * port.element.size();
    std::byte* memory = outputs->Allocate(index, shape, bytes);
    if (memory != nullptr) return memory;
    return base::ResourceExhausted(base::StrCat("no memory for output '", port.name, "' of ", bytes,
                                                " bytes, shape ", shape.ToString()));
  }

  // The variant of just these rows, else the one for any number, else the largest that is filled,
  // else the smallest, padded.
  Chunk NextChunk(int64_t first) const {
    const int64_t left = rows_ - first;
    const std::vector<Variant>& variants = executable_.variants;
    size_t best = 0;
    const bool any_rows = variants.front().rows == 0;
    for (size_t i = 1; i < variants.size() && variants[i].rows <= left; ++i) {
      if (!any_rows || variants[i].rows == left) best = i;
    }
    const int64_t size = variants[best].rows == 0 ? left : variants[best].rows;
    return {.first = first, .count = std::min(left, size), .variant = best, .size = size};
  }

  base::Status RunChunk(const Batch& batch, const Chunk& chunk, OutputSink* outputs) {
    Slot& slot = slots_[chunk.variant];
    const bool padded = chunk.count != chunk.size;
    for (size_t i = 0; i < network_.inputs.size(); ++i) BindInput(i, batch.inputs[i], chunk, &slot);
    for (size_t i = 0; i < network_.outputs.size(); ++i) {
      if (network_.outputs[i].shape_known) BindOutput(i, chunk, padded, &slot);
    }
    slot.request.infer();
    for (size_t i = 0; i < network_.outputs.size(); ++i) {
      if (memory_[i] != nullptr && !padded) continue;
      if (!outputs->Wanted(i)) continue;
      const ov::Tensor result = slot.request.get_output_tensor(network_.outputs[i].index);
      if (memory_[i] == nullptr) {
        STOKER_RETURN_IF_ERROR(Gather(i, result, chunk));
      } else {
        const size_t bytes = RowOffset(i, 1) * static_cast<size_t>(chunk.count);
        std::memcpy(memory_[i] + RowOffset(i, chunk.first), result.data(), bytes);
      }
    }
    return base::OkStatus();
  }

  // Bytes of `rows` rows of an output with fixed dims.
  size_t RowOffset(size_t index, int64_t rows) const {
    const Port& port = network_.outputs[index];
    const auto count = port.dims.ElementCount(port.element.size());
    return network_.batched && count.ok() ? static_cast<size_t>(rows * *count) * port.element.size() : 0;
  }

  void BindInput(size_t index, const tensor::Tensor& input, const Chunk& chunk, Slot* slot) const {
    const Port& port = network_.inputs[index];
    Bound& bound = slot->inputs[index];
    Shape shape = input.shape;
    if (network_.batched) shape[0] = chunk.size;
    const size_t row_bytes =
        network_.batched && rows_ > 0 ? input.bytes.size() / static_cast<size_t>(rows_) : input.bytes.size();
    const std::byte* data = input.bytes.data() + row_bytes * static_cast<size_t>(chunk.first);
    if (chunk.count == chunk.size) {
      if (data != nullptr && bound.data == data && bound.shape == shape) return;
      slot->request.set_input_tensor(port.index, ov::Tensor(port.element, ToOv(shape), Pointer(data)));
      bound = {.data = data, .shape = shape};
      return;
    }
    ov::Tensor padded(port.element, ToOv(shape));
    auto* memory = static_cast<std::byte*>(padded.data());
    const size_t filled = row_bytes * static_cast<size_t>(chunk.count);
    std::memcpy(memory, data, filled);
    std::memset(memory + filled, 0, padded.get_byte_size() - filled);
    slot->request.set_input_tensor(port.index, padded);
    bound = {};
  }

  // Lets an output of known shape be written where it is wanted, or to the request's own memory.
  void BindOutput(size_t index, const Chunk& chunk, bool padded, Slot* slot) const {
    const Port& port = network_.outputs[index];
    Bound& bound = slot->outputs[index];
    if (memory_[index] == nullptr || padded) {
      if (bound.data != nullptr) slot->request.set_output_tensor(port.index, slot->own_outputs[port.index]);
      bound = {};
      return;
    }
    const std::byte* data = memory_[index] + RowOffset(index, chunk.first);
    const Shape shape = network_.batched ? port.dims.WithLeading(chunk.count) : port.dims;
    if (bound.data == data && bound.shape == shape) return;
    slot->request.set_output_tensor(port.index, ov::Tensor(port.element, ToOv(shape), Pointer(data)));
    bound = {.data = data, .shape = shape};
  }

  // Keeps the filled rows of an output whose shape was not known, for FinishOutputs.
  base::Status Gather(size_t index, const ov::Tensor& result, const Chunk& chunk) {
    const Port& port = network_.outputs[index];
    Gathered& gathered = gathered_[index];
    Shape shape = FromOv(result.get_shape());
    const Shape pattern = network_.batched ? port.dims.WithLeading(chunk.size) : port.dims;
    if (!shape.Matches(pattern)) {
      return base::Internal(base::StrCat("output '", port.name, "' of ", network_.file,
                                         " came out with the shape ", shape.ToString(), ", expected ",
                                         pattern.ToString()));
    }
    if (network_.batched) {
      shape[0] = chunk.first + chunk.count;
      if (chunk.first > 0 && !(shape.Tail(1) == gathered.shape.Tail(1))) {
        return base::Internal(base::StrCat(
            "output '", port.name, "' of ", network_.file, " has rows of different shapes in one batch: ",
            shape.Tail(1).ToString(), " and ", gathered.shape.Tail(1).ToString()));
      }
    }
    gathered.shape = shape;
    const size_t row_bytes =
        network_.batched ? result.get_byte_size() / static_cast<size_t>(chunk.size) : result.get_byte_size();
    const size_t bytes = network_.batched ? row_bytes * static_cast<size_t>(chunk.count) : row_bytes;
    gathered.bytes.append(static_cast<const char*>(result.data()), bytes);
    return base::OkStatus();
  }

  base::Status FinishOutputs(OutputSink* outputs) {
    for (size_t i = 0; i < network_.outputs.size(); ++i) {
      if (memory_[i] != nullptr || !outputs->Wanted(i)) continue;
      const Gathered& gathered = gathered_[i];
      STOKER_ASSIGN_OR_RETURN(std::byte* const memory, AllocateOutput(i, gathered.shape, outputs));
      std::memcpy(memory, gathered.bytes.data(), gathered.bytes.size());
    }
    return base::OkStatus();
  }

  const Executable& executable_;
  const Network& network_;
  std::vector<Slot> slots_;
  int64_t rows_ = 1;                // of the running batch
  std::vector<std::byte*> memory_;  // by output: where it goes, when known beforehand
  std::vector<Gathered> gathered_;  // by output: what came out, otherwise
};

}  // namespace

base::Status CheckValues(const Network& network, std::span<const tensor::Tensor> inputs) {
  for (size_t i = 0; i < network.inputs.size(); ++i) {
    const DataType type = network.inputs[i].type;
    const std::span<const std::byte> bytes = inputs[i].bytes.span();
    if (type == DataType::kInt64 ? FitsInt32<int64_t>(bytes)
                                 : type != DataType::kUint64 || FitsInt32<uint64_t>(bytes))
      continue;
    return base::InvalidArgument(
        base::StrCat("input '", network.inputs[i].name, "' holds a value of ", ProtocolName(type),
                     " beyond 32 bits; the openvino engine computes with values up to 2147483647"));
  }
  return base::OkStatus();
}

base::Result<std::unique_ptr<EngineInstance>> MakeOpenvinoInstance(const Executable& executable) {
  try {
    return std::unique_ptr<EngineInstance>(std::make_unique<OpenvinoInstance>(executable));
  } catch (const std::exception& exception) {
    return base::Internal(base::StrCat(executable.network.file,
                                       ": OpenVINO cannot make an infer request: ", Reason(exception)));
  }
}

}  // namespace stoker::engines::internal
