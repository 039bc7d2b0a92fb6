#include "batch_runner.h"

#include <utility>

#include <stoker/base/str_cat.h>

#include "batch_scatter.h"

namespace stoker::host {
namespace {

int64_t RowsOf(std::span<BatchItem> items) {
  int64_t rows = 0;
  for (const BatchItem& item : items) rows += item.checked->rows;
  return rows;
}

// Content of one request may be the cause; lack of memory or time would only get worse.
bool MayBeOneRequestsFault(const base::Status& status) {
  return status.code() != base::StatusCode::kResourceExhausted &&
         status.code() != base::StatusCode::kUnavailable && status.code() != base::StatusCode::kCancelled;
}

}  // namespace

BatchRunner::BatchRunner(std::unique_ptr<engines::EngineInstance> instance, const RunnerOptions& options)
    : instance_(std::move(instance)),
      options_(options),
      collector_(options.plan, options.pool, options.output_bytes_max) {}

std::span<const Execution> BatchRunner::Run(std::span<BatchItem> items, int64_t now_ns) {
  now_ns_ = now_ns;
  executions_.clear();
  if (items.size() > 1 && options_.traits.request_wise && options_.traits.run_inline) {
    RunOneByOne(items, true);
    return executions_;
  }
  Execution execution;
  const base::Status status = RunTogether(items, &execution);
  Finish(items, status, execution);
  executions_.push_back(execution);
  if (!status.ok() && items.size() > 1 && MayBeOneRequestsFault(status)) RunOneByOne(items, false);
  return executions_;
}

void BatchRunner::RunOneByOne(std::span<BatchItem> items, bool one_execution) {
  Execution sum{.rows = RowsOf(items)};
  for (size_t i = 0; i < items.size(); ++i) {
    const auto item = items.subspan(i, 1);
    item[0].response.status = base::OkStatus();
    Execution execution;
    const base::Status status = RunTogether(item, &execution);
    Finish(item, status, execution);
    if (!one_execution) executions_.push_back(execution);
    sum.input_ns += execution.input_ns;
    sum.infer_ns += execution.infer_ns;
    sum.output_ns += execution.output_ns;
  }
  if (!one_execution) return;
  executions_.push_back(sum);
  for (BatchItem& item : items) item.response.timing.batch_rows = sum.rows;
}

base::Status BatchRunner::RunTogether(std::span<BatchItem> items, Execution* execution) {
  execution->rows = RowsOf(items);
  const IoPlan& plan = *options_.plan;
  const int64_t start = now_ns_;
  const bool consume = items.size() == 1 && !plan.any_ragged;
  base::Status gathered = GatherInputs(
      plan, items, {.pool = options_.pool, .alignment = options_.input_alignment, .consume = consume},
      &inputs_);
  const int64_t ready = now_ns_ = options_.clock->NowNs();
  execution->input_ns = ready - start;
  if (!gathered.ok()) return gathered;
  base::Status status = RunEngine(items, execution->rows);
  const int64_t done = options_.clock->NowNs();
  execution->infer_ns = done - ready;
  if (status.ok()) ScatterOutputs(plan, inputs_, &collector_.tensors(), items);
  for (tensor::Tensor& input : inputs_) input.bytes = {};
  now_ns_ = options_.clock->NowNs();
  execution->output_ns = now_ns_ - done;
  return status;
}

base::Status BatchRunner::RunEngine(std::span<BatchItem> items, int64_t rows) {
  OutputMask wanted = items[0].checked->wanted;
  request_rows_.clear();
  for (const BatchItem& item : items) {
    request_rows_.push_back(item.checked->rows);
    if (items.size() > 1) wanted.AddAll(item.checked->wanted);
  }
  collector_.Begin(wanted);
  const device::LeaseGrant grant = options_.lease->Acquire();
  base::Status status =
      instance_->Run({.rows = rows, .inputs = inputs_, .request_rows = request_rows_}, &collector_);
  if (!status.ok() && collector_.over_limit()) {
    return base::ResourceExhausted(base::StrCat("model '", options_.plan->model,
                                                "': the outputs of one run would pass ",
                                                collector_.bytes_max(), " bytes: ", status.message()));
  }
  return status;
}

void BatchRunner::Finish(std::span<BatchItem> items, const base::Status& status, const Execution& execution) {
  for (BatchItem& item : items) {
    if (!status.ok()) {
      item.response.status = status;
      item.response.outputs.clear();
    }
    item.response.timing = {.input_ns = execution.input_ns,
                            .infer_ns = execution.infer_ns,
                            .output_ns = execution.output_ns,
                            .batch_rows = execution.rows};
  }
}

}  // namespace stoker::host
