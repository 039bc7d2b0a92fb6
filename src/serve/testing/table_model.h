#pragma once

#include <memory>
#include <string>
#include <vector>

#include <stoker/host/model.h>

namespace stoker::serve::testing {

/// A model that is nothing but its description, for tests of what doors read and write.
class TableModel final : public host::Model {
 public:
  explicit TableModel(int64_t max_batch_size) : max_batch_size_(max_batch_size) {}

  TableModel& Input(std::string name, tensor::DataType type, tensor::Shape dims) {
    inputs_.push_back(Info(std::move(name), type, std::move(dims)));
    return *this;
  }
  TableModel& Output(std::string name, tensor::DataType type, tensor::Shape dims,
                     std::vector<std::string> labels = {}) {
    outputs_.push_back(Info(std::move(name), type, std::move(dims)));
    outputs_.back().labels = std::move(labels);
    return *this;
  }
  TableModel& Inline(bool runs_inline) {
    runs_inline_ = runs_inline;
    return *this;
  }
  host::ModelRef Ref() const { return std::make_shared<TableModel>(*this); }

  const std::string& name() const override { return name_; }
  int64_t version() const override { return 1; }
  const std::string& platform() const override { return empty_; }
  int64_t max_batch_size() const override { return max_batch_size_; }
  std::span<const host::TensorInfo> inputs() const override { return inputs_; }
  std::span<const host::TensorInfo> outputs() const override { return outputs_; }
  const std::string& config_json() const override { return empty_; }
  const std::string& config_message() const override { return empty_; }
  bool runs_inline() const override { return runs_inline_; }

 private:
  host::TensorInfo Info(std::string name, tensor::DataType type, tensor::Shape dims) const {
    host::TensorInfo info;
    info.name = std::move(name);
    info.type = type;
    info.metadata_shape = max_batch_size_ > 0 ? dims.WithLeading(-1) : dims;
    info.dims = std::move(dims);
    return info;
  }

  std::string name_ = "table";
  std::string empty_;
  int64_t max_batch_size_;
  bool runs_inline_ = true;
  std::vector<host::TensorInfo> inputs_, outputs_;
};

}  // namespace stoker::serve::testing
