#include <stoker/engines/testing/recording_sink.h>

#include <algorithm>

namespace stoker::engines::testing {

std::byte* RecordingSink::Allocate(size_t index, const tensor::Shape& shape, size_t bytes) {
  if (bytes > cap_bytes_) return nullptr;
  Entry& entry = entries_[index];
  ++entry.times_given;
  entry.memory = base::MutableBytes::Allocate(bytes);
  // A pattern that no answer has, so that elements left out are seen.
  std::fill_n(entry.memory.data(), bytes, std::byte{0xa5});
  entry.tensor = {.type = outputs_[index].type, .shape = shape, .bytes = {}};
  return entry.memory.data();
}

void RecordingSink::Adopt(size_t index, tensor::Tensor tensor) {
  Entry& entry = entries_[index];
  ++entry.times_given;
  entry.memory = {};
  entry.tensor = std::move(tensor);
}

bool RecordingSink::Wanted(size_t index) const {
  return !wanted_.has_value() || std::find(wanted_->begin(), wanted_->end(), index) != wanted_->end();
}

std::optional<tensor::Tensor> RecordingSink::Take(size_t index) const {
  const Entry& entry = entries_[index];
  if (entry.times_given == 0) return std::nullopt;
  tensor::Tensor tensor = entry.tensor;
  if (entry.memory.size() > 0) {
    base::MutableBytes copy = base::MutableBytes::Allocate(entry.memory.size());
    std::copy_n(const_cast<Entry&>(entry).memory.data(), copy.size(), copy.data());
    tensor.bytes = std::move(copy).Freeze();
  }
  return tensor;
}

}  // namespace stoker::engines::testing
