#include "output_collector.h"

#include <memory>
#include <utility>

namespace stoker::host {

void OutputCollector::Begin(const OutputMask& wanted) {
  wanted_ = wanted;
  bytes_ = 0;
  over_limit_ = false;
  for (tensor::Tensor& tensor : tensors_) {
    if (tensor.type != tensor::DataType::kInvalid) tensor = {};
  }
}

std::byte* OutputCollector::Allocate(size_t index, const tensor::Shape& shape, size_t bytes) {
  if (index >= tensors_.size()) return nullptr;
  if (bytes > bytes_max_ - bytes_) {
    over_limit_ = true;
    return nullptr;
  }
  std::shared_ptr<std::byte> memory = pool_->Allocate(bytes);
  if (memory == nullptr) return nullptr;
  bytes_ += bytes;
  std::byte* const start = memory.get();
  const std::span<const std::byte> view(start, bytes);
  tensors_[index] = {plan_->outputs[index].type, shape, base::Bytes(view, std::move(memory))};
  return start;
}

void OutputCollector::Adopt(size_t index, tensor::Tensor tensor) {
  if (index < tensors_.size()) tensors_[index] = std::move(tensor);
}

}  // namespace stoker::host
