#include <malloc.h>

#include <algorithm>
#include <map>
#include <memory>
#include <span>
#include <string>

#include <openvino/runtime/core.hpp>
#include <openvino/runtime/properties.hpp>

#include <stoker/base/mutex.h>
#include <stoker/base/str_cat.h>
#include <stoker/engines/engine_module.h>

#include "openvino/executable.h"
#include "openvino/network.h"
#include "openvino/openvino_names.h"
#include "openvino/settings.h"

namespace stoker::engines {
namespace {

using internal::Executable;
using internal::OpenvinoSettings;
using internal::TuningChoice;

constexpr size_t kChoicesMax = 256;

class OpenvinoModel final : public EngineModel {
 public:
  OpenvinoModel(Executable executable, std::string hints)
      : executable_(std::move(executable)), hints_(std::move(hints)) {}
  ~OpenvinoModel() override {
    executable_ = {};
    // Freed weights would stay in the allocator's arenas, and a server that reloads would grow.
    malloc_trim(0);
  }

  base::Result<std::unique_ptr<EngineInstance>> NewInstance(int) override {
    return internal::MakeOpenvinoInstance(executable_);
  }
  base::Status CheckRequest(std::span<const tensor::Tensor> inputs) const override {
    return internal::CheckValues(executable_.network, inputs);
  }
  size_t input_alignment() const override {
    size_t alignment = 1;
    for (const internal::Port& port : executable_.network.inputs)
      alignment = std::max(alignment, ElementSize(port.type));
    return alignment;
  }
  int instances_advised() const override { return executable_.choice.streams; }
  int64_t rows_advised() const override { return executable_.choice.rows_best; }
  size_t memory_bytes() const override {
    return executable_.network.weight_bytes * executable_.variants.size();
  }

  std::string choices() const override {
    std::string text =
        base::StrCat(executable_.choice.streams, " x ",
                     std::max(executable_.threads / executable_.choice.streams, 1), " threads");
    if (executable_.network.batched) base::StrAppend(&text, ", ", BatchesText());
    base::StrAppend(&text, executable_.choice.why);
    if (!hints_.empty()) base::StrAppend(&text, "; without effect here: ", hints_);
    return text;
  }

 private:
  std::string BatchesText() const {
    const bool any_rows = executable_.variants.front().rows == 0;
    std::string sizes;
    for (const internal::Variant& variant : executable_.variants) {
      if (variant.rows > 0) base::StrAppend(&sizes, sizes.empty() ? "" : ",", variant.rows);
    }
    if (!any_rows) return base::StrCat("batches of ", sizes);
    return base::StrCat("one network for batches 1 to ", executable_.network.rows_max,
                        sizes.empty() ? "" : " and one for ", sizes);
  }

  Executable executable_;
  const std::string hints_;
};

class OpenvinoEngine final : public Engine {
 public:
  std::string_view name() const override { return internal::kOpenvinoName; }
  bool Serves(std::string_view backend, std::string_view platform) const override {
    return internal::OpenvinoServes(backend, platform);
  }
  std::span<const std::string_view> default_filenames() const override {
    return internal::OpenvinoFilenames();
  }
  std::string_view backend_for(std::string_view filename) const override {
    return internal::OpenvinoBackendFor(filename);
  }
  std::span<const std::string_view> parameters() const override { return internal::OpenvinoParameters(); }

  base::Result<ModelDescription> Describe(const ModelSpec& spec) override {
    STOKER_ASSIGN_OR_RETURN(ov::Core* const core, OpenCore());
    STOKER_ASSIGN_OR_RETURN(const std::string file, internal::FindModelFile(spec));
    STOKER_ASSIGN_OR_RETURN(const auto model, internal::ReadNetwork(*core, spec, file));
    return internal::DescribeNetwork(spec, model);
  }

  base::Result<std::unique_ptr<EngineModel>> Load(const ModelSpec& spec) override {
    STOKER_ASSIGN_OR_RETURN(const OpenvinoSettings settings, internal::ReadSettings(spec));
    STOKER_ASSIGN_OR_RETURN(ov::Core* const core, OpenCore());
    STOKER_ASSIGN_OR_RETURN(const std::string file, internal::FindModelFile(spec));
    STOKER_ASSIGN_OR_RETURN(auto model, internal::ReadNetwork(*core, spec, file));
    STOKER_ASSIGN_OR_RETURN(auto network, internal::ShapeNetwork(spec, settings, std::move(model)));
    const std::string key = ChoiceKey(spec, settings, network);
    TuningChoice remembered;
    const bool known = Recall(key, &remembered);
    STOKER_ASSIGN_OR_RETURN(
        auto executable, internal::BuildExecutable(*core, std::move(network), settings,
                                                   spec.batch_sizes_wanted, known ? &remembered : nullptr));
    if (!known) Remember(key, executable.choice);
    return std::unique_ptr<EngineModel>(new OpenvinoModel(std::move(executable), settings.hints));
  }

 private:
  base::Result<ov::Core*> OpenCore() {
    base::MutexLock lock(&mutex_);
    if (core_ != nullptr) return core_;
    try {
      auto core = std::make_unique<ov::Core>();
      // A mapped weight file that somebody truncates would end the process with SIGBUS.
      core->set_property(ov::enable_mmap(false));
      // Never destroyed: its threads and libraries may be in use until the process ends.
      core_ = core.release();
      return core_;
    } catch (const std::exception& exception) {
      return base::Unavailable(base::StrCat("OpenVINO cannot be started: ", internal::Reason(exception)));
    }
  }

  // What the best choice depends on. The weights' values do not matter, so a retrained model that is
  // reloaded under load need not be measured again.
  static std::string ChoiceKey(const ModelSpec& spec, const OpenvinoSettings& settings,
                               const internal::Network& network) {
    return base::StrCat(spec.name, "\n", network.file.substr(network.file.rfind('/') + 1), "\n",
                        network.weight_bytes, "\n", network.rows_max, "\n",
                        static_cast<int>(settings.batch_mode), "\n", static_cast<int>(settings.precision),
                        "\n", settings.threads, "\n", settings.streams, "\n",
                        network.model->get_ops().size());
  }

  bool Recall(const std::string& key, TuningChoice* choice) {
    base::MutexLock lock(&mutex_);
    const auto found = choices_.find(key);
    if (found == choices_.end()) return false;
    *choice = found->second;
    return true;
  }

  void Remember(const std::string& key, const TuningChoice& choice) {
    base::MutexLock lock(&mutex_);
    if (choices_.size() >= kChoicesMax) choices_.erase(choices_.begin());
    choices_[key] = choice;
  }

  base::Mutex mutex_;
  ov::Core* core_ GUARDED_BY(mutex_) = nullptr;
  std::map<std::string, TuningChoice> choices_ GUARDED_BY(mutex_);
};

}  // namespace
}  // namespace stoker::engines

extern "C" {
__attribute__((visibility("default"))) uint64_t stoker_engine_abi() { return stoker::engines::EngineAbi(); }
__attribute__((visibility("default"))) stoker::engines::Engine* stoker_engine_make() {
  return new stoker::engines::OpenvinoEngine();
}
}
