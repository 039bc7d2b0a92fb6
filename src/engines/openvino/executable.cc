#include "openvino/executable.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include <openvino/runtime/infer_request.hpp>
#include <openvino/runtime/properties.hpp>

#include <stoker/base/clock.h>
#include <stoker/base/str_cat.h>

namespace stoker::engines::internal {
namespace {

constexpr int64_t kBudgetNs = 1500 * base::kNsPerMs;       // of one model's measurements
constexpr int64_t kMeasureNs = 40 * base::kNsPerMs;        // of one measurement
constexpr int kRunsMax = 200;
constexpr int64_t kProbeExtent = 16;                       // of dimensions that are open
constexpr int64_t kProbeRowsMax = 32;
constexpr size_t kStaticWeightBytesMax = size_t{512} << 20;  // copies of weights that static batches may cost
constexpr size_t kSizesMax = 10;

ov::element::Type ElementOf(Precision precision) {
  return precision == Precision::kBf16 ? ov::element::bf16 : precision == Precision::kFp16 ? ov::element::f16 : ov::element::f32;
}

uint32_t Mix(uint32_t x) {
  x = (x ^ (x >> 16)) * 0x7feb352dU;
  x = (x ^ (x >> 15)) * 0x846ca68bU;
  return x ^ (x >> 16);
}

// Small values that any model takes: numbers in [-1, 1), whole ones 0 or 1, short texts.
ov::Tensor ProbeInput(const Port& port, const ov::PartialShape& partial, int64_t rows, bool batched) {
  ov::Shape shape;
  for (size_t i = 0; i < partial.size(); ++i) {
    if (i == 0 && batched) shape.push_back(static_cast<size_t>(rows));
    else shape.push_back(partial[i].is_static() ? static_cast<size_t>(partial[i].get_length()) : kProbeExtent);
  }
  ov::Tensor tensor(port.element, shape);
  const size_t count = tensor.get_size();
  const auto real = [](size_t i) { return static_cast<float>(Mix(static_cast<uint32_t>(i)) >> 8) / float{1 << 23} - 1.0F; };
  if (port.element == ov::element::string) {
    for (size_t i = 0; i < count; ++i) tensor.data<std::string>()[i].assign(1, (i & 1) != 0 ? 'a' : 'b');
  } else if (port.element == ov::element::f32) {
    for (size_t i = 0; i < count; ++i) tensor.data<float>()[i] = real(i);
  } else if (port.element == ov::element::f64) {
    for (size_t i = 0; i < count; ++i) tensor.data<double>()[i] = real(i);
  } else if (port.element == ov::element::f16) {
    for (size_t i = 0; i < count; ++i) tensor.data<ov::float16>()[i] = ov::float16(real(i));
  } else if (port.element == ov::element::bf16) {
    for (size_t i = 0; i < count; ++i) tensor.data<ov::bfloat16>()[i] = ov::bfloat16(real(i));
  } else {
    auto* bytes = static_cast<uint8_t*>(tensor.data());
    const size_t size = port.element.size();
    std::fill_n(bytes, count * size, uint8_t{0});
    for (size_t i = 0; i < count; ++i) bytes[i * size] = Mix(static_cast<uint32_t>(i)) & 1U;
  }
  return tensor;
}

double ValueAt(const ov::Tensor& tensor, size_t i) {
  switch (static_cast<ov::element::Type_t>(tensor.get_element_type())) {
    case ov::element::Type_t::f32: return tensor.data<const float>()[i];
    case ov::element::Type_t::f64: return tensor.data<const double>()[i];
    case ov::element::Type_t::f16: return static_cast<float>(tensor.data<const ov::float16>()[i]);
    case ov::element::Type_t::bf16: return static_cast<float>(tensor.data<const ov::bfloat16>()[i]);
    case ov::element::Type_t::i32: return tensor.data<const int32_t>()[i];
    case ov::element::Type_t::i64: return static_cast<double>(tensor.data<const int64_t>()[i]);
    default: return 0;
  }
}

bool SameValues(const ov::Tensor& whole, size_t offset, const ov::Tensor& part) {
  const ov::element::Type type = part.get_element_type();
  if (type == ov::element::string) {
    return std::equal(part.data<const std::string>(), part.data<const std::string>() + part.get_size(),
                      whole.data<const std::string>() + offset);
  }
  const bool numeric = type.is_real() || type == ov::element::i32 || type == ov::element::i64;
  if (!numeric) {
    const auto* bytes = static_cast<const uint8_t*>(part.data());
    return std::equal(bytes, bytes + part.get_byte_size(), static_cast<const uint8_t*>(whole.data()) + offset * type.size());
  }
  const double tolerance = type.is_real() ? 1e-2 : 0;
  for (size_t i = 0; i < part.get_size(); ++i) {
    const double a = ValueAt(whole, offset + i);
    const double b = ValueAt(part, i);
    if (!(std::abs(a - b) <= tolerance * (1 + std::abs(b))) && !(std::isnan(a) && std::isnan(b))) return false;
  }
  return true;
}

// Compiles and measures one network. Throws what OpenVINO throws; BuildExecutable catches.
class Tuner {
 public:
  Tuner(ov::Core& core, const Network& network, const OpenvinoSettings& settings)
      : core_(core), network_(network), settings_(settings), start_ns_(base::Clock::Real().NowNs()) {}

  ov::CompiledModel Compile(const std::shared_ptr<ov::Model>& model, int streams) {
    const int64_t start_ns = base::Clock::Real().NowNs();
    ov::AnyMap properties = {
        ov::num_streams(ov::streams::Num(streams)),
        ov::inference_num_threads(std::max(settings_.threads, streams)),
        ov::hint::inference_precision(ElementOf(settings_.precision)),
        ov::hint::enable_cpu_pinning(false),
    };
    if (settings_.compilation_threads > 0) properties.insert(ov::compilation_num_threads(settings_.compilation_threads));
    ov::CompiledModel compiled = core_.compile_model(model, "CPU", properties);
    compile_ns_ = base::Clock::Real().NowNs() - start_ns;
    return compiled;
  }

  // Whether there is time for `compilations` more of them and their measurement.
  bool HasTime(int compilations) const {
    const int64_t spent_ns = base::Clock::Real().NowNs() - start_ns_;
    return spent_ns + compilations * (compile_ns_ + 2 * kMeasureNs) < kBudgetNs;
  }

  ov::InferRequest Request(ov::CompiledModel& compiled, int64_t rows) const {
    ov::InferRequest request = compiled.create_infer_request();
    for (const Port& port : network_.inputs) {
      const ov::PartialShape& shape = compiled.input(port.index).get_partial_shape();
      request.set_input_tensor(port.index, ProbeInput(port, shape, rows, network_.batched));
    }
    return request;
  }

  // Least nanoseconds in which `at_once` requests of `rows` rows are done.
  double Measure(ov::CompiledModel& compiled, int64_t rows, int at_once) const {
    std::vector<ov::InferRequest> requests;
    for (int i = 0; i < at_once; ++i) requests.push_back(Request(compiled, rows));
    for (ov::InferRequest& request : requests) request.infer();
    const base::Clock& clock = base::Clock::Real();
    const int64_t start_ns = clock.NowNs();
    int64_t best_ns = std::numeric_limits<int64_t>::max();
    int64_t now_ns = start_ns;
    for (int run = 0; run < kRunsMax && (run < 2 || now_ns - start_ns < kMeasureNs); ++run) {
      const int64_t begin_ns = now_ns;
      if (at_once == 1) {
        requests[0].infer();
      } else {
        for (ov::InferRequest& request : requests) request.start_async();
        for (ov::InferRequest& request : requests) request.wait();
      }
      now_ns = clock.NowNs();
      best_ns = std::min(best_ns, now_ns - begin_ns);
    }
    return static_cast<double>(std::max<int64_t>(best_ns, 1));
  }

  // Whether each row of a batch of two gets the answer that it gets alone.
  bool RowsAreIndependent(ov::CompiledModel& compiled) const {
    ov::InferRequest both = Request(compiled, 2);
    both.infer();
    for (size_t row = 0; row < 2; ++row) {
      ov::InferRequest alone = compiled.create_infer_request();
      for (const Port& port : network_.inputs) {
        const ov::Tensor pair = both.get_input_tensor(port.index);
        ov::Coordinate begin(pair.get_shape().size(), 0);
        ov::Coordinate end(pair.get_shape());
        begin[0] = row;
        end[0] = row + 1;
        ov::Shape shape = pair.get_shape();
        shape[0] = 1;
        ov::Tensor one(port.element, shape);
        ov::Tensor(pair, begin, end).copy_to(one);
        alone.set_input_tensor(port.index, one);
      }
      alone.infer();
      for (size_t i = 0; i < compiled.outputs().size(); ++i) {
        const ov::Tensor whole = both.get_output_tensor(i);
        const ov::Tensor part = alone.get_output_tensor(i);
        if (whole.get_size() != 2 * part.get_size() || !SameValues(whole, row * part.get_size(), part)) return false;
      }
    }
    return true;
  }

 private:
  ov::Core& core_;
  const Network& network_;
  const OpenvinoSettings& settings_;
  const int64_t start_ns_;
  int64_t compile_ns_ = 0;
};

std::string Micros(double ns) { return base::StrCat(std::llround(ns / 1000), " us"); }

// One instance with all threads answers soonest; one instance a thread wins when the network is too
// small to be worth splitting, or when the whole machine gets clearly more done that way.
void ChooseStreams(Tuner& tuner, const Network& network, const OpenvinoSettings& settings, ov::CompiledModel* compiled,
                   TuningChoice* choice) {
  if (settings.streams > 0 || settings.threads < 2 || !tuner.HasTime(1)) return;
  const int64_t rows = std::min(network.rows_max, kProbeRowsMax);
  const double wide_one = tuner.Measure(*compiled, 1, 1);
  const double wide_full = rows > 1 ? tuner.Measure(*compiled, rows, 1) : wide_one;
  ov::CompiledModel narrow = tuner.Compile(network.model, settings.threads);
  const double narrow_one = tuner.Measure(narrow, 1, 1);
  const double narrow_full = tuner.Measure(narrow, rows, settings.threads) / settings.threads;
  const bool narrow_wins = narrow_one <= 1.1 * wide_one || (narrow_full < 0.75 * wide_full && narrow_one < 3 * wide_one);
  base::StrAppend(&choice->why, "; ", Micros(wide_one), " with ", settings.threads, " threads, ", Micros(narrow_one),
                  " with one; batch of ", rows, " in ", Micros(wide_full), " or ", Micros(narrow_full));
  if (!narrow_wins) return;
  choice->streams = settings.threads;
  *compiled = narrow;
}

void ChooseBatchMode(Tuner& tuner, const Network& network, const OpenvinoSettings& settings, ov::CompiledModel& dynamic,
                     TuningChoice* choice) {
  if (settings.batch_mode != BatchMode::kAuto || network.rows_max == 1 || !tuner.HasTime(2)) return;
  const size_t copies = StaticSizes(network.rows_max, {}).size();
  if (network.weight_bytes * copies > kStaticWeightBytesMax) return;
  const int64_t rows = std::min(network.rows_max, kProbeRowsMax);
  double gain = 0;
  for (const int64_t size : {int64_t{1}, rows}) {
    auto model = WithRows(network, size);
    if (!model.ok()) return;
    ov::CompiledModel fixed = tuner.Compile(*model, choice->streams);
    gain += tuner.Measure(dynamic, size, 1) / tuner.Measure(fixed, size, 1) / 2;
  }
  choice->static_rows = gain > 1.1;
  base::StrAppend(&choice->why, "; fixed batches ", std::llround(gain * 100), " % of the dynamic one's speed");
}

// Compiles what `choice` says, reusing `dynamic` when that is it.
base::Status CompileVariants(Tuner& tuner, const std::vector<int64_t>& sizes_wanted, ov::CompiledModel dynamic,
                             Executable* executable) {
  const Network& network = executable->network;
  const TuningChoice& choice = executable->choice;
  std::vector<int64_t> sizes;
  if (choice.row_by_row) sizes = {network.file_rows};
  else if (choice.static_rows) sizes = StaticSizes(network.rows_max, sizes_wanted);
  if (sizes.empty()) {
    if (!dynamic) dynamic = tuner.Compile(network.model, choice.streams);
    executable->variants.push_back({.rows = 0, .compiled = dynamic});
    return base::OkStatus();
  }
  for (const int64_t size : sizes) {
    STOKER_ASSIGN_OR_RETURN(const auto model, WithRows(network, size));
    executable->variants.push_back({.rows = size, .compiled = tuner.Compile(model, choice.streams)});
  }
  return base::OkStatus();
}

base::Status Tune(Tuner& tuner, const std::vector<int64_t>& sizes_wanted, const OpenvinoSettings& settings,
                  Executable* executable) {
  const Network& network = executable->network;
  TuningChoice& choice = executable->choice;
  choice.streams = std::max(settings.streams, 1);
  choice.static_rows = settings.batch_mode == BatchMode::kStatic && network.batched;
  choice.row_by_row = network.batched && !network.dynamic_rows;
  if (choice.row_by_row) {
    base::StrAppend(&choice.why, "; batch stays ", network.file_rows, ": ", network.why_fixed);
    return CompileVariants(tuner, sizes_wanted, {}, executable);
  }
  ov::CompiledModel compiled = tuner.Compile(network.model, choice.streams);
  if (network.batched && network.file_rows > 0 && network.rows_max > 1 && !tuner.RowsAreIndependent(compiled)) {
    choice.row_by_row = true;
    base::StrAppend(&choice.why, "; batch stays ", network.file_rows, ": rows of a larger one influence each other");
    return CompileVariants(tuner, sizes_wanted, {}, executable);
  }
  try {
    ChooseStreams(tuner, network, settings, &compiled, &choice);
    if (network.batched) ChooseBatchMode(tuner, network, settings, compiled, &choice);
  } catch (const std::exception& exception) {
    // Made-up inputs may not suit a network; what was chosen so far stands.
    base::StrAppend(&choice.why, "; not measured: ", Reason(exception));
  }
  return CompileVariants(tuner, sizes_wanted, compiled, executable);
}

}  // namespace

std::vector<int64_t> StaticSizes(int64_t rows_max, const std::vector<int64_t>& wanted) {
  std::set<int64_t> sizes = {1, rows_max};
  for (const int64_t size : wanted) {
    if (size >= 1 && size <= rows_max && sizes.size() < kSizesMax) sizes.insert(size);
  }
  // From the largest down, so that a long list loses the smallest savings.
  for (int64_t size = int64_t{1} << 40; size > 1; size /= 2) {
    if (size < rows_max && sizes.size() < kSizesMax) sizes.insert(size);
  }
  return {sizes.begin(), sizes.end()};
}

base::Result<Executable> BuildExecutable(ov::Core& core, Network network, const OpenvinoSettings& settings,
                                         const std::vector<int64_t>& sizes_wanted, const TuningChoice* remembered) {
  Executable executable;
  executable.network = std::move(network);
  executable.threads = settings.threads;
  try {
    Tuner tuner(core, executable.network, settings);
    if (remembered != nullptr) {
      executable.choice = *remembered;
      STOKER_RETURN_IF_ERROR(CompileVariants(tuner, sizes_wanted, {}, &executable));
    } else {
      STOKER_RETURN_IF_ERROR(Tune(tuner, sizes_wanted, settings, &executable));
    }
  } catch (const std::exception& exception) {
    return base::InvalidArgument(
        base::StrCat(executable.network.file, ": OpenVINO cannot compile the model: ", Reason(exception)));
  }
  return executable;
}

}  // namespace stoker::engines::internal
