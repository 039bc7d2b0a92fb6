#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include <stoker/engines/engine.h>

namespace stoker::engines::testing {

/// An OutputSink that keeps what an engine gives, for tests. Not thread-safe.
class RecordingSink final : public OutputSink {
 public:
  explicit RecordingSink(const std::vector<TensorSpec>& outputs)
      : outputs_(outputs), entries_(outputs.size()) {}

  /// Outputs to ask for, by index; all unless called.
  void WantOnly(std::vector<size_t> wanted) { wanted_ = std::move(wanted); }
  /// Allocate gives nothing beyond this size.
  void CapBytes(size_t bytes) { cap_bytes_ = bytes; }

  std::byte* Allocate(size_t index, const tensor::Shape& shape, size_t bytes) override;
  void Adopt(size_t index, tensor::Tensor tensor) override;
  bool Wanted(size_t index) const override;

  /// What was given as output `index`, of the type in the specification; nothing if it was not given.
  std::optional<tensor::Tensor> Take(size_t index) const;
  /// How many times output `index` was given.
  int TimesGiven(size_t index) const { return entries_[index].times_given; }

 private:
  struct Entry {
    int times_given = 0;
    base::MutableBytes memory;
    tensor::Tensor tensor;
  };
  std::vector<TensorSpec> outputs_;
  std::vector<Entry> entries_;
  std::optional<std::vector<size_t>> wanted_;
  size_t cap_bytes_ = std::numeric_limits<size_t>::max();
};

}  // namespace stoker::engines::testing
