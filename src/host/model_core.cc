#include "model_core.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <utility>

#include <stoker/base/str_cat.h>

#include "batching_config.h"

namespace stoker::host {
namespace {

constexpr size_t kIdleBytesMax = size_t{256} << 20;  // of batch and output memory, per version
constexpr int kInstancesMax = 1024;

}  // namespace

struct alignas(64) ModelCore::InlineSlot {
  std::atomic<bool> busy{false};
  std::unique_ptr<BatchRunner> runner;
};

ModelCore::ModelCore(const Services& services, CoreParts* parts, IoPlan plan)
    : services_(services),
      statistics_(std::move(parts->statistics)),
      warmups_(std::move(parts->warmups)),
      plan_(std::move(plan)),
      pool_(kIdleBytesMax) {}

ModelCore::~ModelCore() = default;

base::Result<std::unique_ptr<ModelCore>> ModelCore::Load(const Services& services, CoreParts parts) {
  const ModelConfig& config = *parts.config;
  STOKER_ASSIGN_OR_RETURN(IoPlan plan, MakeIoPlan(config));
  DescribeForEngine(plan, &parts.spec);
  std::unique_ptr<ModelCore> core(new ModelCore(services, &parts, std::move(plan)));
  const base::Status started = core->Start(config, parts.spec);
  if (started.ok()) return core;
  // Instance threads may run already; none has work, so they end at once.
  if (core->scheduler_ != nullptr) CHECK(core->Stop(std::numeric_limits<int64_t>::max()));
  return started;
}

base::Status ModelCore::Start(const ModelConfig& config, const engines::ModelSpec& spec) {
  STOKER_ASSIGN_OR_RETURN(engines::Engine * engine,
                          services_.engines->ForConfig(config.backend, config.platform));
  engine_name_ = std::string(engine->name());
  STOKER_ASSIGN_OR_RETURN(engine_model_, engine->Load(spec));
  traits_ = engine_model_->traits();
  STOKER_ASSIGN_OR_RETURN(auto batching, MakeDynamicConfig(config, services_.queue_rows_max));
  // Sizes that nobody asked for are the engine's to advise, unless the configuration waits for company.
  const int64_t rows_advised = engine_model_->rows_advised();
  if (batching.batching && config.dynamic_batching.sizes_by_default && batching.max_queue_delay_ns == 0 &&
      rows_advised > 0) {
    batching.preferred_batch_sizes = {std::min(rows_advised, batching.max_batch_size)};
  }
  inline_capable_ = traits_.run_inline && !batching.preserve_ordering &&
                    (!batching.batching || batching.max_queue_delay_ns == 0);
  const std::string name = base::StrCat(config.name, ":", spec.version);
  STOKER_ASSIGN_OR_RETURN(scheduler_,
                          Scheduler::Make({.name = name,
                                           .plan = &plan_,
                                           .statistics = statistics_.get(),
                                           .counts = services_.counts,
                                           .clock = services_.clock,
                                           .timer = services_.timer,
                                           .inline_choice = inline_capable_ ? &inline_choice_ : nullptr},
                                          std::move(batching)));
  if (inline_capable_) {
    // Beside the instances proper, one for each thread that may submit at the same time.
    for (int i = 0; i < std::max(services_.cores, 1); ++i) {
      auto slot = std::make_unique<InlineSlot>();
      STOKER_ASSIGN_OR_RETURN(slot->runner, NewRunner(i));
      slots_.push_back(std::move(slot));
    }
    inline_choice_.Allow();
  }
  return SetInstances(config);
}

int ModelCore::InstancesFor(const ModelConfig& config) const {
  const int wanted = config.instance_count > 0 ? config.instance_count : engine_model_->instances_advised();
  return std::clamp(wanted, 1, kInstancesMax);
}

base::Status ModelCore::SetInstances(const ModelConfig& config) {
  const auto wanted = static_cast<size_t>(InstancesFor(config));
  while (scheduler_->instances() < wanted) {
    STOKER_ASSIGN_OR_RETURN(auto runner, NewRunner(static_cast<int>(scheduler_->instances())));
    scheduler_->AddInstance(std::move(runner));
  }
  while (scheduler_->instances() > wanted) scheduler_->RemoveInstance();
  return base::OkStatus();
}

base::Result<std::unique_ptr<BatchRunner>> ModelCore::NewRunner(int index) {
  STOKER_ASSIGN_OR_RETURN(auto instance, engine_model_->NewInstance(index));
  const RunnerOptions options{.plan = &plan_,
                              .pool = &pool_,
                              .clock = services_.clock,
                              .lease = services_.lease,
                              .traits = traits_,
                              .input_alignment = engine_model_->input_alignment(),
                              .output_bytes_max = services_.output_bytes_max};
  auto runner = std::make_unique<BatchRunner>(std::move(instance), options);
  STOKER_RETURN_IF_ERROR(RunWarmups(plan_, warmups_, runner.get()));
  return runner;
}

void ModelCore::Refuse(ResponseSink* sink, base::Status status) {
  InferResponse response;
  response.status = std::move(status);
  sink->OnResponse(std::move(response));
  services_.counts->End();
}

void ModelCore::Submit(std::unique_ptr<InferRequest> request, std::unique_ptr<ResponseSink> sink,
                       Arrived arrived) {
  CheckedRequest checked;
  if (base::Status status = CheckRequest(plan_, request.get(), &checked); !status.ok()) {
    return Refuse(sink.get(), std::move(status));
  }
  if (InlineSlot* slot = MayRunInline() && request->deadline_ns == 0 ? TakeSlot() : nullptr;
      slot != nullptr) {
    InferResponse response;
    RunInline(slot, {.request = request.get(), .checked = &checked, .response = {}}, arrived, &response);
    sink->OnResponse(std::move(response));
    services_.counts->End();
    return;
  }
  auto pending = std::make_unique<PendingRequest>(std::move(request), std::move(sink));
  pending->checked = std::move(checked);
  pending->started_ns = arrived.started_ns;
  scheduler_->Submit(std::move(pending));
}

bool ModelCore::MayRunInline() const { return inline_choice_.now() && scheduler_->queued() == 0; }

ModelCore::InlineSlot* ModelCore::TakeSlot() {
  const size_t first = observe::ThreadShard();
  for (size_t i = 0; i < slots_.size(); ++i) {
    InlineSlot* slot = slots_[(first + i) % slots_.size()].get();
    if (!slot->busy.load(std::memory_order_relaxed) && !slot->busy.exchange(true, std::memory_order_acquire))
      return slot;
  }
  return nullptr;
}

void ModelCore::RunInline(InlineSlot* slot, BatchItem item, Arrived arrived, InferResponse* response) {
  const Execution execution = slot->runner->Run({&item, 1}, arrived.now_ns)[0];
  const int64_t end = slot->runner->ended_ns();
  slot->busy.store(false, std::memory_order_release);
  *response = std::move(item.response);
  inline_choice_.Learn(execution.infer_ns);
  statistics_->RecordExecution(execution, end);
  statistics_->RecordClose(batching::CloseReason::kSlotFree);
  const int64_t total_ns = end - arrived.started_ns;
  if (response->status.ok()) {
    statistics_->RecordSuccess(item.checked->rows, {total_ns, response->timing});
  } else {
    statistics_->RecordFailure(FailureReason::kBackend, total_ns);
  }
}

}  // namespace stoker::host
