#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <stoker/base/str_cat.h>
#include <stoker/engines/engines.h>

#include "description_internal.h"
#include "fake/element_sum.h"
#include "parameters_internal.h"
#include "sleep_internal.h"

namespace stoker::engines {
namespace {

using internal::IntParameter;
using internal::ModelLabel;

constexpr std::string_view kBackend = "stoker_fake";
constexpr std::array<std::string_view, 4> kParameters = {"stoker.cost_base_us", "stoker.cost_per_row_us",
                                                         "stoker.fail_every", "stoker.scale"};
constexpr int64_t kCostMaxUs = int64_t{3600} * 1000 * 1000;

struct FakePlan {
  std::vector<TensorSpec> outputs;
  bool batched = false;
  int64_t cost_base_us = 0;
  int64_t cost_per_row_us = 0;
  int64_t fail_every = 0;
  double scale = 1;
  std::function<void(int64_t)> sleep_ns;
  std::string label;
};

class FakeInstance final : public EngineInstance {
 public:
  FakeInstance(const FakePlan& plan, std::atomic<int64_t>* runs) : plan_(plan), runs_(runs) {}

  base::Status Run(const Batch& batch, OutputSink* outputs) override {
    const int64_t run = runs_->fetch_add(1, std::memory_order_relaxed) + 1;
    const int64_t cost_us = plan_.cost_base_us + plan_.cost_per_row_us * batch.rows;
    if (cost_us > 0) plan_.sleep_ns(cost_us * 1000);
    if (plan_.fail_every > 0 && run % plan_.fail_every == 0) {
      return base::Internal(base::StrCat(plan_.label, ": run ", run, " fails as stoker.fail_every asks"));
    }
    const size_t rows = plan_.batched ? static_cast<size_t>(batch.rows) : 1;
    std::vector<std::vector<double>> row_sums(rows);  // [row][input]
    for (const tensor::Tensor& input : batch.inputs) {
      std::vector<double> sums(rows, 0.0);
      if (input.type != tensor::DataType::kInvalid) {
        STOKER_ASSIGN_OR_RETURN(sums, internal::RowSums(input, rows));
      }
      for (size_t row = 0; row < rows; ++row) row_sums[row].push_back(sums[row]);
    }
    for (size_t i = 0; i < plan_.outputs.size(); ++i) {
      if (outputs->Wanted(i)) STOKER_RETURN_IF_ERROR(Write(i, row_sums, outputs));
    }
    return base::OkStatus();
  }

 private:
  base::Status Write(size_t index, const std::vector<std::vector<double>>& row_sums,
                     OutputSink* outputs) const {
    tensor::Shape shape = plan_.outputs[index].dims;
    STOKER_ASSIGN_OR_RETURN(const int64_t columns, shape.ElementCount(sizeof(float)));
    if (plan_.batched) shape = shape.WithLeading(static_cast<int64_t>(row_sums.size()));
    const size_t bytes = row_sums.size() * static_cast<size_t>(columns) * sizeof(float);
    std::byte* memory = outputs->Allocate(index, shape, bytes);
    if (memory == nullptr) {
      return base::ResourceExhausted(base::StrCat(plan_.label, ": no memory for output '",
                                                  plan_.outputs[index].name, "' of ", bytes, " bytes"));
    }
    for (const std::vector<double>& sums : row_sums) {
      for (int64_t column = 0; column < columns; ++column) {
        const float value =
            static_cast<float>(ExpectedFakeValue(plan_.scale, static_cast<size_t>(column), sums));
        std::memcpy(memory, &value, sizeof(value));
        memory += sizeof(value);
      }
    }
    return base::OkStatus();
  }

  const FakePlan& plan_;
  std::atomic<int64_t>* const runs_;
};

class FakeModel final : public EngineModel {
 public:
  explicit FakeModel(FakePlan plan) : plan_(std::move(plan)) {}
  base::Result<std::unique_ptr<EngineInstance>> NewInstance(int) override {
    return std::unique_ptr<EngineInstance>(new FakeInstance(plan_, &runs_));
  }
  std::string choices() const override {
    return base::StrCat(plan_.cost_base_us, " us and ", plan_.cost_per_row_us, " us a row");
  }

 private:
  const FakePlan plan_;
  std::atomic<int64_t> runs_ = 0;
};

class FakeEngine final : public Engine {
 public:
  explicit FakeEngine(const EngineOptions& options) : sleep_ns_(internal::SleepFunction(options)) {}

  std::string_view name() const override { return kBackend; }
  bool Serves(std::string_view backend, std::string_view) const override { return backend == kBackend; }
  std::span<const std::string_view> default_filenames() const override { return {}; }
  std::string_view backend_for(std::string_view) const override { return ""; }
  std::span<const std::string_view> parameters() const override { return kParameters; }

  base::Result<ModelDescription> Describe(const ModelSpec& spec) override {
    return internal::DescribeFromSpec(spec);
  }

  base::Result<std::unique_ptr<EngineModel>> Load(const ModelSpec& spec) override {
    FakePlan plan;
    plan.outputs = spec.outputs;
    plan.batched = spec.max_batch_size > 0;
    plan.sleep_ns = sleep_ns_;
    plan.label = ModelLabel(spec);
    STOKER_RETURN_IF_ERROR(internal::DescribeFromSpec(spec).status());
    for (const TensorSpec& output : spec.outputs) {
      if (output.type == tensor::DataType::kFp32 && !output.dims.has_wildcard()) continue;
      return base::InvalidArgument(base::StrCat(
          plan.label, ": output '", output.name, "' is ", ConfigName(output.type), " ",
          output.dims.ToString(), "; backend 'stoker_fake' makes TYPE_FP32 with fixed dims only"));
    }
    STOKER_ASSIGN_OR_RETURN(const auto base_us,
                            IntParameter(spec, "stoker.cost_base_us", {.max = kCostMaxUs}));
    STOKER_ASSIGN_OR_RETURN(const auto row_us,
                            IntParameter(spec, "stoker.cost_per_row_us", {.max = kCostMaxUs}));
    STOKER_ASSIGN_OR_RETURN(const auto fail_every, IntParameter(spec, "stoker.fail_every", {}));
    STOKER_ASSIGN_OR_RETURN(const auto scale, internal::RealParameter(spec, "stoker.scale"));
    plan.cost_base_us = base_us.value_or(0);
    plan.cost_per_row_us = row_us.value_or(0);
    plan.fail_every = fail_every.value_or(0);
    plan.scale = scale.value_or(1);
    return std::unique_ptr<EngineModel>(new FakeModel(std::move(plan)));
  }

 private:
  const std::function<void(int64_t)> sleep_ns_;
};

}  // namespace

double ExpectedFakeValue(double scale, size_t column, const std::vector<double>& input_row_sums) {
  double value = 0;
  for (size_t i = 0; i < input_row_sums.size(); ++i) value += static_cast<double>(i + 1) * input_row_sums[i];
  return scale * static_cast<double>(column + 1) * value;
}

std::unique_ptr<Engine> MakeFakeEngine(const EngineOptions& options) {
  return std::make_unique<FakeEngine>(options);
}

}  // namespace stoker::engines
