#include "batch_scatter.h"

#include <utility>

#include <stoker/base/str_cat.h>

namespace stoker::host {
namespace {

using base::StrCat;
using tensor::DataType;
using tensor::Shape;
using tensor::Tensor;

struct Scatter {
  const IoPlan& plan;
  const OutputPlan& output;
  size_t index = 0;
  std::span<const Tensor> inputs;
  std::span<BatchItem> items;
};

void Fail(BatchItem* item, base::Status status) {
  if (!item->response.status.ok()) return;
  item->response.status = std::move(status);
  item->response.outputs.clear();
}

void FailAll(const Scatter& scatter, const base::Status& status) {
  for (BatchItem& item : scatter.items) {
    if (item.checked->wanted.Has(scatter.index)) Fail(&item, status);
  }
}

void Give(const Scatter& scatter, BatchItem* item, Tensor tensor) {
  if (!item->response.status.ok()) return;
  item->response.outputs.push_back({scatter.index, std::move(tensor)});
}

bool IsBatched(const Scatter& scatter) { return scatter.plan.max_batch_size > 0; }

// The shape that a client sees, given the engine's of `rows` rows.
Shape ClientShape(const Scatter& scatter, const Shape& engine, int64_t rows) {
  const size_t leading = IsBatched(scatter) ? 1 : 0;
  if (scatter.output.reshaped) {
    const Shape mapped = MapShape(engine.Tail(leading), scatter.output.engine_dims, scatter.output.dims);
    return leading == 1 ? mapped.WithLeading(rows) : mapped;
  }
  Shape out = engine;
  if (leading == 1) out[0] = rows;
  return out;
}

// The ragged input that this output passes on unchanged, or -1.
int PassedThrough(const Scatter& scatter, const Tensor& tensor) {
  if (!scatter.plan.any_ragged) return -1;
  for (size_t i = 0; i < scatter.plan.inputs.size(); ++i) {
    const Tensor& input = scatter.inputs[i];
    if (scatter.plan.inputs[i].ragged && input.type == tensor.type &&
        input.bytes.data() == tensor.bytes.data() && input.bytes.size() == tensor.bytes.size()) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

// Cuts `bytes` after the next `elements` elements; false when there are not that many.
class Cutter {
 public:
  explicit Cutter(const Tensor& tensor)
      : tensor_(tensor), size_(tensor::ElementSize(tensor.type)), reader_(tensor.bytes.span()) {}

  bool Next(int64_t elements, base::Bytes* out) {
    const size_t start = offset_;
    if (size_ > 0) {
      offset_ += static_cast<size_t>(elements) * size_;
    } else {
      std::string_view element;
      for (int64_t i = 0; i < elements; ++i) {
        if (!reader_.Next(&element)) return false;
      }
      offset_ = reader_.consumed();
    }
    if (offset_ > tensor_.bytes.size()) return false;
    *out = tensor_.bytes.Slice(start, offset_ - start);
    return true;
  }
  bool AtEnd() const { return offset_ == tensor_.bytes.size(); }

 private:
  const Tensor& tensor_;
  const size_t size_;
  tensor::BytesReader reader_;
  size_t offset_ = 0;
};

base::Status WrongOutput(const Scatter& scatter, const Tensor& tensor, std::string_view why) {
  return base::Internal(StrCat("output '", scatter.output.name, "' of model '", scatter.plan.model,
                               "' has shape ", tensor.shape.ToString(), " and ", tensor.bytes.size(),
                               " bytes of ", tensor::ProtocolName(tensor.type), ": ", why));
}

// Each answer takes the shape of that request's input, one after another.
void ScatterByInput(const Scatter& scatter, const Tensor& tensor, size_t input) {
  Cutter cutter(tensor);
  for (BatchItem& item : scatter.items) {
    const Tensor& source = item.request->inputs[input].tensor;
    if (source.type == DataType::kInvalid) continue;
    const auto elements = source.shape.ElementCount();
    base::Bytes bytes;
    if (!elements.ok() || !cutter.Next(*elements, &bytes)) {
      return FailAll(scatter, WrongOutput(scatter, tensor, "too short for the inputs that it follows"));
    }
    if (item.checked->wanted.Has(scatter.index))
      Give(scatter, &item, {tensor.type, source.shape, std::move(bytes)});
  }
}

void ScatterByRows(const Scatter& scatter, const Tensor& tensor, int64_t rows) {
  const auto count = tensor.shape.ElementCount();
  if (!count.ok()) return FailAll(scatter, WrongOutput(scatter, tensor, "the shape cannot be"));
  const int64_t row_elements = *count / rows;
  Cutter cutter(tensor);
  for (BatchItem& item : scatter.items) {
    base::Bytes bytes;
    if (!cutter.Next(row_elements * item.checked->rows, &bytes)) {
      return FailAll(scatter, WrongOutput(scatter, tensor, "fewer bytes than its shape asks for"));
    }
    if (item.checked->wanted.Has(scatter.index)) {
      Give(scatter, &item,
           {tensor.type, ClientShape(scatter, tensor.shape, item.checked->rows), std::move(bytes)});
    }
  }
}

void ScatterOne(const Scatter& scatter, Tensor* tensor) {
  int64_t rows = 0;
  bool wanted = false;
  for (const BatchItem& item : scatter.items) {
    rows += item.checked->rows;
    wanted |= item.checked->wanted.Has(scatter.index);
  }
  if (!wanted) return;
  if (tensor->type == DataType::kInvalid) {
    return FailAll(scatter, base::Internal(StrCat("model '", scatter.plan.model, "' did not produce output '",
                                                  scatter.output.name, "', which the request asks for")));
  }
  if (tensor->type != scatter.output.type) {
    return FailAll(scatter,
                   WrongOutput(scatter, *tensor,
                               StrCat("the configuration says ", tensor::ProtocolName(scatter.output.type))));
  }
  const int source =
      scatter.output.scatter_input >= 0 ? scatter.output.scatter_input : PassedThrough(scatter, *tensor);
  if (source >= 0) return ScatterByInput(scatter, *tensor, static_cast<size_t>(source));
  if (IsBatched(scatter) && (tensor->shape.rank() == 0 || tensor->shape[0] != rows)) {
    return FailAll(scatter, WrongOutput(scatter, *tensor,
                                        StrCat("its first dimension must be the batch of ", rows,
                                               " rows; is max_batch_size right for this model?")));
  }
  if (const base::Status status = tensor::CheckBytes(scatter.output.name, *tensor); !status.ok()) {
    return FailAll(scatter, WrongOutput(scatter, *tensor, status.message()));
  }
  if (scatter.items.size() > 1) return ScatterByRows(scatter, *tensor, rows);
  if (scatter.output.reshaped) tensor->shape = ClientShape(scatter, tensor->shape, rows);
  Give(scatter, &scatter.items[0], std::move(*tensor));
}

}  // namespace

void ScatterOutputs(const IoPlan& plan, std::span<const Tensor> inputs, std::vector<Tensor>* outputs,
                    std::span<BatchItem> items) {
  for (BatchItem& item : items) item.response.outputs.reserve(plan.outputs.size());
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    ScatterOne({plan, plan.outputs[i], i, inputs, items}, &(*outputs)[i]);
  }
}

}  // namespace stoker::host
