#pragma once

#include <cstddef>
#include <vector>

#include <stoker/engines/engine.h>
#include <stoker/tensor/tensor.h>

#include "buffer_pool.h"
#include "io_plan.h"
#include "output_mask.h"

namespace stoker::host {

/// Takes the outputs of one run. Belongs to one instance; used by one thread at a time.
class OutputCollector final : public engines::OutputSink {
 public:
  OutputCollector(const IoPlan* plan, BufferPool* pool, size_t bytes_max)
      : plan_(plan), pool_(pool), bytes_max_(bytes_max), tensors_(plan->outputs.size()) {}

  /// Forgets the last run.
  void Begin(const OutputMask& wanted);

  std::byte* Allocate(size_t index, const tensor::Shape& shape, size_t bytes) override;
  void Adopt(size_t index, tensor::Tensor tensor) override;
  bool Wanted(size_t index) const override { return wanted_.Has(index); }

  /// By output index; kInvalid type: not given.
  std::vector<tensor::Tensor>& tensors() { return tensors_; }
  bool over_limit() const { return over_limit_; }
  size_t bytes_max() const { return bytes_max_; }

 private:
  const IoPlan* const plan_;
  BufferPool* const pool_;
  const size_t bytes_max_;
  size_t bytes_ = 0;
  bool over_limit_ = false;
  OutputMask wanted_;
  std::vector<tensor::Tensor> tensors_;
};

}  // namespace stoker::host
