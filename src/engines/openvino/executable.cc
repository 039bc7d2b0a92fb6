#include "openvino/executable.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>

#include <openvino/runtime/infer_request.hpp>
#include <openvino/runtime/properties.hpp>

#include <stoker/base/clock.h>
#include <stoker/base/str_cat.h>

namespace stoker::engines::internal {
namespace {

constexpr int64_t kBudgetNs = 3000 * base::kNsPerMs;  // of one model's compilations and measurements
constexpr int64_t kMeasureNs = 80 * base::kNsPerMs;   // of one comparison
constexpr int kRoundsMin = 7;
constexpr int kRoundsMax = 200;
constexpr int64_t kProbeExtent = 16;  // of dimensions that are open
constexpr int64_t kProbeRowsMax = 32;
constexpr double kQuickRowNs = 15000;
constexpr double kGainWanted = 1.15;                         // of a more expensive way over a cheaper one
constexpr size_t kStaticWeightBytesMax = size_t{128} << 20;  // copies of weights that static batches may cost
constexpr size_t kSizesMax = 10;

ov::element::Type ElementOf(Precision precision) {
  return precision == Precision::kBf16   ? ov::element::bf16
         : precision == Precision::kFp16 ? ov::element::f16
                                         : ov::element::f32;
}

uint32_t Mix(uint32_t x) {
  x = (x ^ (x >> 16)) * 0x7feb352dU;
  x = (x ^ (x >> 15)) * 0x846ca68bU;
  return x ^ (x >> 16);
}

// Small values that any model takes: numbers in [-1, 1), whole ones 0 or 1.
ov::Tensor ProbeInput(const Port& port, const ov::PartialShape& partial, int64_t rows, bool batched) {
  ov::Shape shape;
  for (size_t i = 0; i < partial.size(); ++i) {
    if (i == 0 && batched)
      shape.push_back(static_cast<size_t>(rows));
    else if (partial[i].is_static())
      shape.push_back(static_cast<size_t>(partial[i].get_length()));
    else
      shape.push_back(i == 0 ? 1 : kProbeExtent);
  }
  ov::Tensor tensor(port.element, shape);
  const size_t count = tensor.get_size();
  const auto real = [](size_t i) {
    return static_cast<float>(Mix(static_cast<uint32_t>(i)) >> 8) / float{1 << 23} - 1.0F;
  };
  if (port.element == ov::element::f32) {
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
    case ov::element::Type_t::f32:
      return tensor.data<const float>()[i];
    case ov::element::Type_t::f64:
      return tensor.data<const double>()[i];
    case ov::element::Type_t::f16:
      return static_cast<float>(tensor.data<const ov::float16>()[i]);
    case ov::element::Type_t::bf16:
      return static_cast<float>(tensor.data<const ov::bfloat16>()[i]);
    case ov::element::Type_t::i32:
      return tensor.data<const int32_t>()[i];
    case ov::element::Type_t::i64:
      return static_cast<double>(tensor.data<const int64_t>()[i]);
    default:
      return 0;
  }
}

bool SameValues(const ov::Tensor& whole, size_t offset, const ov::Tensor& part) {
  const ov::element::Type type = part.get_element_type();
  const bool numeric = type.is_real() || type == ov::element::i32 || type == ov::element::i64;
  if (!numeric) {
    const auto* bytes = static_cast<const uint8_t*>(part.data());
    return std::equal(bytes, bytes + part.get_byte_size(),
                      static_cast<const uint8_t*>(whole.data()) + offset * type.size());
  }
  const double tolerance = type.is_real() ? 1e-2 : 0;
  for (size_t i = 0; i < part.get_size(); ++i) {
    const double a = ValueAt(whole, offset + i);
    const double b = ValueAt(part, i);
    if (!(std::abs(a - b) <= tolerance * (1 + std::abs(b))) && !(std::isnan(a) && std::isnan(b)))
      return false;
  }
  return true;
}

// Compiles and measures one network. Throws what OpenVINO throws; BuildExecutable catches.
class Tuner {
 public:
  Tuner(ov::Core& core, const Network& network, const OpenvinoSettings& settings)
      : core_(core), network_(network), settings_(settings), start_ns_(base::Clock::Real().NowNs()) {}

  ov::CompiledModel Compile(const std::shared_ptr<ov::Model>& model, int streams) {
    return Compile(model, streams, settings_.precision);
  }

  ov::CompiledModel Compile(const std::shared_ptr<ov::Model>& model, int streams, Precision precision) {
    const int64_t start_ns = base::Clock::Real().NowNs();
    ov::AnyMap properties = {
        ov::num_streams(ov::streams::Num(streams)),
        ov::inference_num_threads(std::max(settings_.threads, streams)),
        ov::hint::enable_cpu_pinning(false),
    };
    if (precision != Precision::kNative) {
      properties.insert(ov::hint::inference_precision(ElementOf(precision)));
    }
    ov::CompiledModel compiled = core_.compile_model(model, "CPU", properties);
    compile_ns_ = base::Clock::Real().NowNs() - start_ns;
    return compiled;
  }

  const Network& network() const { return network_; }
  const OpenvinoSettings& settings() const { return settings_; }

  // Whether there is time for `compilations` more of them and a comparison each.
  bool HasTime(int compilations) const {
    const int64_t spent_ns = base::Clock::Real().NowNs() - start_ns_;
    return spent_ns + compilations * (compile_ns_ + kMeasureNs) < kBudgetNs;
  }

  ov::InferRequest Request(ov::CompiledModel& compiled, int64_t rows) const {
    ov::InferRequest request = compiled.create_infer_request();
    for (const Port& port : network_.inputs) {
      const ov::PartialShape& shape = compiled.input(port.index).get_partial_shape();
      request.set_input_tensor(port.index, ProbeInput(port, shape, rows, network_.batched));
    }
    return request;
  }

  // One way of running: `at_once` requests of `rows` rows each.
  struct Way {
    ov::CompiledModel compiled;
    int64_t rows = 1;
    int at_once = 1;
  };

  struct Comparison {
    double first_ns = 0;  // least time of each way
    double second_ns = 0;
    double gain = 0;  // how much faster the second surely is: by least times and in most rounds
  };

  // Runs two ways in turn, so that what else the machine does hits both alike.
  Comparison Compare(Way first, Way second) const {
    std::array<Way, 2> ways = {std::move(first), std::move(second)};
    std::array<std::vector<ov::InferRequest>, 2> requests;
    for (size_t i = 0; i < ways.size(); ++i) {
      for (int k = 0; k < ways[i].at_once; ++k) {
        requests[i].push_back(Request(ways[i].compiled, ways[i].rows));
      }
      RunOnce(requests[i]);
    }
    constexpr double kNever = std::numeric_limits<double>::max();
    Comparison result = {.first_ns = kNever, .second_ns = kNever};
    std::vector<double> ratios;
    const int64_t start_ns = base::Clock::Real().NowNs();
    for (int round = 0; round < kRoundsMax; ++round) {
      const double first_ns = RunOnce(requests[0]);
      const double second_ns = RunOnce(requests[1]);
      result.first_ns = std::min(result.first_ns, first_ns);
      result.second_ns = std::min(result.second_ns, second_ns);
      ratios.push_back(first_ns / second_ns);
      if (round + 1 >= kRoundsMin && base::Clock::Real().NowNs() - start_ns > kMeasureNs) break;
    }
    std::nth_element(ratios.begin(), ratios.begin() + static_cast<long>(ratios.size() / 2), ratios.end());
    result.gain = std::min(result.first_ns / result.second_ns, ratios[ratios.size() / 2]);
    return result;
  }

  // Nanoseconds of one row, from a run or two.
  double Glance(ov::CompiledModel& compiled) const {
    std::vector<ov::InferRequest> request = {Request(compiled, 1)};
    RunOnce(request);
    return RunOnce(request);
  }

  // Whether each row of a batch of two gets the answer that it gets alone.
  bool RowsAreIndependent(ov::CompiledModel compiled) {
    // The coarse rounding of bf16 differs between batch sizes; what mixes rows does so in fp32 too.
    if (settings_.precision != Precision::kFp32) compiled = Compile(network_.model, 1, Precision::kFp32);
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
        if (whole.get_size() != 2 * part.get_size() || !SameValues(whole, row * part.get_size(), part))
          return false;
      }
    }
    return true;
  }

 private:
  static double RunOnce(std::vector<ov::InferRequest>& requests) {
    const base::Clock& clock = base::Clock::Real();
    const int64_t begin_ns = clock.NowNs();
    if (requests.size() == 1) {
      requests[0].infer();
    } else {
      for (ov::InferRequest& request : requests) request.start_async();
      for (ov::InferRequest& request : requests) request.wait();
    }
    return static_cast<double>(std::max<int64_t>(clock.NowNs() - begin_ns, 1));
  }

  ov::Core& core_;
  const Network& network_;
  const OpenvinoSettings& settings_;
  const int64_t start_ns_;
  int64_t compile_ns_ = 0;
};

std::string Micros(double ns) { return base::StrCat(std::llround(ns / 1000), " us"); }

// Rows of a full batch as far as there is time to measure with them.
int64_t ProbeRows(const Network& network, double row_ns) {
  const int64_t affordable = static_cast<int64_t>(static_cast<double>(kMeasureNs) / 4 / row_ns);
  return std::clamp<int64_t>(affordable, 1, std::min(network.rows_max, kProbeRowsMax));
}

// A network of a fixed batch saves working out shapes at each run; it costs a copy of the weights.
void ChooseBatchMode(Tuner& tuner, const ov::CompiledModel& dynamic, int64_t rows, TuningChoice* choice) {
  const Network& network = tuner.network();
  const OpenvinoSettings& settings = tuner.settings();
  if (settings.batch_mode != BatchMode::kAuto || network.rows_max == 1) return;
  const size_t copies = StaticSizes(network.rows_max, {}).size();
  for (const int64_t size : {int64_t{1}, rows}) {
    if (!tuner.HasTime(1)) return;
    if (network.weight_bytes * (size == 1 ? 1 : copies) > kStaticWeightBytesMax) return;
    auto model = WithRows(network, size);
    if (!model.ok()) return;
    const Tuner::Comparison times =
        tuner.Compare({.compiled = dynamic, .rows = size},
                      {.compiled = tuner.Compile(*model, choice->streams), .rows = size});
    base::StrAppend(&choice->why, "; batch of ", size, ": ", Micros(times.first_ns), " open, ",
                    Micros(times.second_ns), " fixed");
    const bool gains = times.gain > kGainWanted;
    (size == 1 ? choice->static_single : choice->static_rows) = gains;
    if (rows == 1) return;
  }
}

// One instance with all threads answers soonest; one instance a thread wins when the network is too
// small to be worth splitting, or when the whole machine gets clearly more done that way.
void ChooseStreams(Tuner& tuner, int64_t rows, ov::CompiledModel* compiled, TuningChoice* choice) {
  const Network& network = tuner.network();
  const OpenvinoSettings& settings = tuner.settings();
  if (settings.streams > 0 || settings.threads < 2 || !tuner.HasTime(1)) return;
  const ov::CompiledModel wide = *compiled;
  const ov::CompiledModel narrow = tuner.Compile(network.model, settings.threads);
  const Tuner::Comparison one = tuner.Compare({.compiled = wide}, {.compiled = narrow});
  base::StrAppend(&choice->why, "; one row: ", Micros(one.first_ns), " with ", settings.threads, " threads, ",
                  Micros(one.second_ns), " with one");
  bool narrow_wins = one.gain * kGainWanted >= 1;
  if (one.gain > 0.33 && tuner.HasTime(0)) {
    const Tuner::Comparison full = tuner.Compare(
        {.compiled = wide, .rows = rows}, {.compiled = narrow, .rows = rows, .at_once = settings.threads});
    base::StrAppend(&choice->why, ", ", rows, " rows: ", Micros(full.first_ns), ", ",
                    Micros(full.second_ns / settings.threads));
    narrow_wins = narrow_wins || full.gain * settings.threads > 1.3;
    // So quick that one instance outruns the requests; more of them would only form smaller batches.
    if (full.first_ns < kQuickRowNs * static_cast<double>(rows)) narrow_wins = false;
  }
  if (!narrow_wins) return;
  choice->streams = settings.threads;
  *compiled = narrow;
}

// The number of rows from which larger batches gain nothing: networks bound by arithmetic, not by memory, do
// no better, and sometimes worse, with many rows.
void ChooseRows(Tuner& tuner, const ov::CompiledModel& compiled, TuningChoice* choice) {
  // A batch costs what is not measured here: gathering its rows, and sizes that change from run to run.
  constexpr double kRowsGain = 1.12;
  const int64_t rows_max = tuner.network().rows_max;
  // Time of its own: without this answer a network bound by arithmetic would be slowed by its batches.
  constexpr int64_t kRowsBudgetNs = 1000 * base::kNsPerMs;
  const int64_t start_ns = base::Clock::Real().NowNs();
  int64_t best = 1;
  int64_t tried = 1;
  for (int64_t rows = 2; rows <= std::min(rows_max, kProbeRowsMax); rows *= 2) {
    if (base::Clock::Real().NowNs() - start_ns > kRowsBudgetNs) break;
    tried = rows;
    const Tuner::Comparison times =
        tuner.Compare({.compiled = compiled, .rows = best}, {.compiled = compiled, .rows = rows});
    const double gain = times.gain * static_cast<double>(rows) / static_cast<double>(best);
    // Every size is tried: kernels for two or four rows may lose where those for sixteen win.
    if (gain > kRowsGain) best = rows;
  }
  if (best == tried) return;  // each step gained: as many as there are
  choice->rows_best = best;
  base::StrAppend(&choice->why, "; more than ", best, best == 1 ? " row" : " rows", " at once gain nothing");
}

// Compiles what `choice` says, reusing `dynamic` when that is it.
base::Status CompileVariants(Tuner& tuner, const std::vector<int64_t>& sizes_wanted,
                             ov::CompiledModel dynamic, Executable* executable) {
  const Network& network = executable->network;
  const TuningChoice& choice = executable->choice;
  std::vector<int64_t> sizes;
  if (choice.row_by_row) {
    sizes = {network.file_rows};
  } else if (choice.static_rows) {
    sizes = StaticSizes(network.rows_max, sizes_wanted);
  } else if (choice.static_single) {
    sizes = {1};
  }
  // Batches of other sizes run on the network for any number of rows, unless that was ruled out.
  if (sizes.empty() || (!choice.row_by_row && tuner.settings().batch_mode != BatchMode::kStatic)) {
    if (!dynamic) dynamic = tuner.Compile(network.model, choice.streams);
    executable->variants.push_back({.rows = 0, .compiled = dynamic});
  }
  for (const int64_t size : sizes) {
    STOKER_ASSIGN_OR_RETURN(const auto model, WithRows(network, size));
    executable->variants.push_back({.rows = size, .compiled = tuner.Compile(model, choice.streams)});
  }
  return base::OkStatus();
}

base::Status Tune(Tuner& tuner, const std::vector<int64_t>& sizes_wanted, Executable* executable) {
  const Network& network = tuner.network();
  const OpenvinoSettings& settings = tuner.settings();
  TuningChoice& choice = executable->choice;
  choice.streams = std::max(settings.streams, 1);
  choice.static_rows = settings.batch_mode == BatchMode::kStatic && network.batched;
  choice.row_by_row = network.batched && !network.dynamic_rows;
  if (choice.row_by_row) {
    base::StrAppend(&choice.why, "; batch stays ", network.file_rows, ": ", network.why_fixed);
    return CompileVariants(tuner, sizes_wanted, {}, executable);
  }
  ov::CompiledModel compiled = tuner.Compile(network.model, choice.streams);
  if (network.batched && network.file_rows > 0 && network.rows_max > 1 &&
      !tuner.RowsAreIndependent(compiled)) {
    choice.row_by_row = true;
    base::StrAppend(&choice.why, "; batch stays ", network.file_rows,
                    ": rows of a larger one influence each other");
    return CompileVariants(tuner, sizes_wanted, {}, executable);
  }
  try {
    const int64_t rows = ProbeRows(network, tuner.Glance(compiled));
    ChooseStreams(tuner, rows, &compiled, &choice);
    if (network.batched) {
      ChooseBatchMode(tuner, compiled, rows, &choice);
      ChooseRows(tuner, compiled, &choice);
    }
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
                                         const std::vector<int64_t>& sizes_wanted,
                                         const TuningChoice* remembered) {
  Executable executable;
  executable.network = std::move(network);
  executable.threads = settings.threads;
  try {
    Tuner tuner(core, executable.network, settings);
    if (remembered != nullptr) {
      executable.choice = *remembered;
      STOKER_RETURN_IF_ERROR(CompileVariants(tuner, sizes_wanted, {}, &executable));
    } else {
      STOKER_RETURN_IF_ERROR(Tune(tuner, sizes_wanted, &executable));
    }
  } catch (const std::exception& exception) {
    return base::InvalidArgument(
        base::StrCat(executable.network.file, ": OpenVINO cannot compile the model: ", Reason(exception)));
  }
  return executable;
}

}  // namespace stoker::engines::internal
