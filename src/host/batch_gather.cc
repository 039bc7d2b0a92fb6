#include "batch_gather.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <stoker/base/str_cat.h>

namespace stoker::host {
namespace {

using tensor::DataType;
using tensor::Shape;
using tensor::Tensor;

bool Aligned(const std::byte* memory, size_t alignment) {
  return alignment <= 1 || reinterpret_cast<uintptr_t>(memory) % alignment == 0;
}

const Tensor& InputOf(const BatchItem& item, size_t index) { return item.request->inputs[index].tensor; }

base::Status OutOfMemory(const IoPlan& plan, std::string_view name, size_t bytes) {
  return base::ResourceExhausted(base::StrCat("model '", plan.model, "': no memory for ", bytes,
                                              " bytes of input '", name, "' of a batch"));
}

int64_t Elements(const Tensor& tensor) {
  const auto count = tensor.shape.ElementCount();
  return count.ok() ? *count : 0;
}

// The shape that the engine sees of a whole batch, given that of one request.
Shape EngineShape(const IoPlan& plan, const InputPlan& input, const Shape& shape, int64_t rows) {
  const size_t leading = plan.max_batch_size > 0 ? 1 : 0;
  Shape out = input.reshaped ? MapShape(shape.Tail(leading), input.dims, input.engine_dims) : shape;
  if (input.reshaped && leading == 1) return out.WithLeading(rows);
  if (leading == 1) out[0] = rows;
  return out;
}

base::Status Concatenate(const IoPlan& plan, std::span<BatchItem> items, size_t index, BufferPool* pool,
                         Tensor* out) {
  size_t bytes = 0;
  for (const BatchItem& item : items) bytes += InputOf(item, index).bytes.size();
  std::shared_ptr<std::byte> memory = pool->Allocate(bytes);
  if (memory == nullptr) return OutOfMemory(plan, plan.inputs[index].name, bytes);
  std::byte* to = memory.get();
  for (const BatchItem& item : items) {
    const base::Bytes& from = InputOf(item, index).bytes;
    if (!from.empty()) std::memcpy(to, from.data(), from.size());
    to += from.size();
  }
  const std::span<const std::byte> view(memory.get(), bytes);
  out->bytes = base::Bytes(view, std::move(memory));
  return base::OkStatus();
}

base::Status GatherInput(const IoPlan& plan, std::span<BatchItem> items, size_t index,
                         const GatherTarget& target) {
  const InputPlan& input = plan.inputs[index];
  Tensor& first = items[0].request->inputs[index].tensor;
  Tensor* out = target.out;
  if (first.type == DataType::kInvalid && !input.ragged) {
    *out = {};
    return base::OkStatus();
  }
  const bool as_it_is = items.size() == 1 && Aligned(first.bytes.data(), target.alignment);
  if (as_it_is && target.consume && !input.reshaped && !input.ragged) {
    *out = std::move(first);
    first = {};
    return base::OkStatus();
  }
  out->type = input.type;
  if (input.ragged) {
    int64_t elements = 0;
    for (const BatchItem& item : items) {
      if (InputOf(item, index).type != DataType::kInvalid) elements += Elements(InputOf(item, index));
    }
    out->shape = Shape{elements};
  } else {
    out->shape = EngineShape(plan, input, first.shape, target.rows);
  }
  if (as_it_is) {
    out->bytes = first.bytes;
    return base::OkStatus();
  }
  return Concatenate(plan, items, index, target.pool, out);
}

// The numbers of a batch input: one a request, an item's dimension, or a sum.
std::vector<int64_t> BatchInputValues(const IoPlan& plan, const BatchInputPlan& extra,
                                      std::span<BatchItem> items) {
  using Kind = BatchInputConfig::Kind;
  std::vector<int64_t> values;
  int64_t sum = 0;
  if (extra.kind == Kind::kAccumulatedElementCountWithZero) values.push_back(0);
  for (const BatchItem& item : items) {
    const Tensor& source = InputOf(item, extra.source);
    const int64_t elements = source.type == DataType::kInvalid ? 0 : Elements(source);
    sum += elements;
    switch (extra.kind) {
      case Kind::kElementCount:
        values.push_back(elements);
        break;
      case Kind::kAccumulatedElementCount:
      case Kind::kAccumulatedElementCountWithZero:
        values.push_back(sum);
        break;
      case Kind::kMaxElementCountAsShape:
        if (static_cast<size_t>(elements) > values.size()) values.resize(static_cast<size_t>(elements), 0);
        break;
      case Kind::kItemShape:
      case Kind::kItemShapeFlatten:
        for (int64_t row = 0; row < item.checked->rows; ++row) {
          for (size_t d = plan.max_batch_size > 0 ? 1 : 0; d < source.shape.rank(); ++d)
            values.push_back(source.shape[d]);
        }
        break;
    }
  }
  return values;
}

base::Status MakeBatchInput(const IoPlan& plan, const BatchInputPlan& extra, std::span<BatchItem> items,
                            const GatherTarget& target) {
  const std::vector<int64_t> values = BatchInputValues(plan, extra, items);
  const size_t bytes = values.size() * 4;
  std::shared_ptr<std::byte> memory = target.pool->Allocate(bytes);
  if (memory == nullptr) return OutOfMemory(plan, extra.target, bytes);
  for (size_t i = 0; i < values.size(); ++i) {
    if (extra.type == DataType::kFp32) {
      const auto value = static_cast<float>(values[i]);
      std::memcpy(memory.get() + i * 4, &value, 4);
    } else {
      const auto value = static_cast<int32_t>(std::min<int64_t>(values[i], INT32_MAX));
      std::memcpy(memory.get() + i * 4, &value, 4);
    }
  }
  const auto count = static_cast<int64_t>(values.size());
  const bool per_item = extra.kind == BatchInputConfig::Kind::kItemShape && target.rows > 0;
  const std::span<const std::byte> view(memory.get(), bytes);
  *target.out = {extra.type, per_item ? Shape{target.rows, count / target.rows} : Shape{count},
                 base::Bytes(view, std::move(memory))};
  return base::OkStatus();
}

}  // namespace

base::Status GatherInputs(const IoPlan& plan, std::span<BatchItem> items, const GatherOptions& options,
                          std::vector<Tensor>* inputs) {
  inputs->resize(plan.inputs.size() + plan.batch_inputs.size());
  GatherTarget target{.pool = options.pool, .alignment = options.alignment, .consume = options.consume};
  for (const BatchItem& item : items) target.rows += item.checked->rows;
  for (size_t i = 0; i < plan.batch_inputs.size(); ++i) {
    target.out = &(*inputs)[plan.inputs.size() + i];
    STOKER_RETURN_IF_ERROR(MakeBatchInput(plan, plan.batch_inputs[i], items, target));
  }
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    target.out = &(*inputs)[i];
    STOKER_RETURN_IF_ERROR(GatherInput(plan, items, i, target));
  }
  return base::OkStatus();
}

}  // namespace stoker::host
