// What every engine must do, whatever it runs: right answers for every batch size, alone and in
// company; errors that name file and reason; no harm done by failures; no growth by reloading.
#include <stoker/engines/testing/conformance.h>

#include <immintrin.h>
#include <malloc.h>
#include <stdlib.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include <stoker/base/str_cat.h>
#include <stoker/engines/testing/recording_sink.h>

namespace stoker::engines::testing {
namespace {

using tensor::DataType;
using tensor::Tensor;

constexpr uint64_t kSeed = 20240817;

int64_t ResidentKb() {
  std::ifstream statm("/proc/self/statm");
  int64_t pages = 0;
  int64_t resident = 0;
  statm >> pages >> resident;
  return resident * 4;
}

std::vector<int64_t> RowCounts(const ModelSpec& spec) {
  if (spec.max_batch_size == 0) return {1};
  std::vector<int64_t> counts;
  for (int64_t rows = 1; rows <= spec.max_batch_size; rows += rows < 5 ? 1 : rows / 2) counts.push_back(rows);
  if (counts.back() != spec.max_batch_size) counts.push_back(spec.max_batch_size);
  return counts;
}

double ElementAt(const Tensor& tensor, size_t i) {
  const std::byte* data = tensor.bytes.data() + i * ElementSize(tensor.type);
  uint16_t half = 0;
  float single = 0;
  double whole = 0;
  switch (tensor.type) {
    case DataType::kFp16:
      std::memcpy(&half, data, 2);
      return _cvtsh_ss(half);
    case DataType::kBf16:
      std::memcpy(&half, data, 2);
      return std::bit_cast<float>(static_cast<uint32_t>(half) << 16);
    case DataType::kFp32:
      std::memcpy(&single, data, 4);
      return single;
    default:
      std::memcpy(&whole, data, 8);
      return whole;
  }
}

bool IsReal(DataType type) {
  return type == DataType::kFp16 || type == DataType::kBf16 || type == DataType::kFp32 ||
         type == DataType::kFp64;
}

// One row of a tensor, with a batch dimension of 1.
Tensor RowOf(const Tensor& tensor, int64_t row) {
  Tensor part = tensor;
  const auto rows = static_cast<size_t>(tensor.shape[0]);
  part.shape[0] = 1;
  if (tensor.type != DataType::kBytes) {
    const size_t size = tensor.bytes.size() / rows;
    part.bytes = tensor.bytes.Slice(static_cast<size_t>(row) * size, size);
    return part;
  }
  const auto per_row = static_cast<size_t>(*part.shape.ElementCount());
  tensor::BytesReader reader(tensor.bytes.span());
  std::string text;
  std::string_view element;
  for (size_t i = 0; reader.Next(&element); ++i) {
    if (i / per_row == static_cast<size_t>(row)) tensor::AppendBytesElement(&text, element);
  }
  part.bytes = base::Bytes::Own(std::move(text));
  return part;
}

base::Status RunBatch(EngineInstance* instance, const std::vector<Tensor>& inputs, int64_t rows,
                      OutputSink* sink) {
  return instance->Run({.rows = rows, .inputs = inputs, .request_rows = {&rows, 1}}, sink);
}

}  // namespace

void PrintTo(const ConformanceModel& model, std::ostream* out) { *out << model.label; }

std::string ConformanceName(const ::testing::TestParamInfo<ConformanceModel>& info) {
  return info.param.label;
}

Tensor MakeTextTensor(tensor::Shape shape, const std::vector<std::string>& values) {
  std::string bytes;
  for (const std::string& value : values) tensor::AppendBytesElement(&bytes, value);
  return {.type = DataType::kBytes, .shape = std::move(shape), .bytes = base::Bytes::Own(std::move(bytes))};
}

std::vector<float> Floats(const Tensor& tensor) {
  std::vector<float> values(tensor.bytes.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

::testing::AssertionResult SameTensor(const Tensor& got, const Tensor& wanted, double tolerance) {
  if (got.type != wanted.type || !(got.shape == wanted.shape) || got.bytes.size() != wanted.bytes.size()) {
    return ::testing::AssertionFailure()
           << "got " << ProtocolName(got.type) << " " << got.shape.ToString() << " of " << got.bytes.size()
           << " bytes, wanted " << ProtocolName(wanted.type) << " " << wanted.shape.ToString() << " of "
           << wanted.bytes.size();
  }
  if (!IsReal(got.type)) {
    if (got.bytes.text() == wanted.bytes.text()) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << "the bytes differ";
  }
  for (size_t i = 0; i < got.bytes.size() / ElementSize(got.type); ++i) {
    const double a = ElementAt(got, i);
    const double b = ElementAt(wanted, i);
    if (std::abs(a - b) <= tolerance * (1 + std::abs(b)) || (std::isnan(a) && std::isnan(b)) || a == b)
      continue;
    return ::testing::AssertionFailure() << "element " << i << " is " << a << ", wanted " << b;
  }
  return ::testing::AssertionSuccess();
}

void EngineConformanceTest::SetUp() {
  std::string pattern = (std::filesystem::temp_directory_path() / "stoker-engine-XXXXXX").string();
  ASSERT_NE(mkdtemp(pattern.data()), nullptr);
  folder_ = pattern;
  spec_ = model().spec;
  spec_.version_path = folder_;
  engine_ = model().make_engine();
  ASSERT_NE(engine_, nullptr);
  WriteFiles();
}

void EngineConformanceTest::TearDown() {
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}

void EngineConformanceTest::WriteFiles(const std::function<void(std::string* content)>& change) {
  for (const auto& [name, content] : model().files) {
    std::string changed = content;
    if (change) change(&changed);
    const std::filesystem::path path = std::filesystem::path(folder_) / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary | std::ios::trunc) << changed;
  }
}

std::unique_ptr<EngineModel> EngineConformanceTest::LoadOrFail() {
  auto loaded = engine_->Load(spec_);
  EXPECT_TRUE(loaded.ok()) << loaded.status().ToString();
  return loaded.ok() ? std::move(loaded).value() : nullptr;
}

void EngineConformanceTest::RunAndCompare(EngineInstance* instance, int64_t rows, base::Rng& rng) {
  const std::vector<Tensor> inputs = model().make_inputs(rows, rng);
  std::vector<std::string> before;
  before.reserve(inputs.size());
  for (const Tensor& input : inputs) before.emplace_back(input.bytes.text());
  RecordingSink sink(spec_.outputs);
  const base::Status status = RunBatch(instance, inputs, rows, &sink);
  ASSERT_TRUE(status.ok()) << status.ToString();
  const std::vector<Tensor> wanted = model().reference(inputs, rows);
  ASSERT_EQ(wanted.size(), spec_.outputs.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    const auto got = sink.Take(i);
    ASSERT_TRUE(got.has_value()) << "output " << i << " was not given";
    EXPECT_EQ(sink.TimesGiven(i), 1);
    EXPECT_TRUE(SameTensor(*got, wanted[i], model().tolerance))
        << rows << " rows, output '" << spec_.outputs[i].name << "'";
  }
  for (size_t i = 0; i < inputs.size(); ++i)
    EXPECT_EQ(inputs[i].bytes.text(), before[i]) << "input " << i << " was changed";
}

TEST_P(EngineConformanceTest, ServesItsBackend) {
  EXPECT_TRUE(engine_->Serves(spec_.backend, spec_.platform));
  EXPECT_FALSE(engine_->Serves("no_such_backend", ""));
  EXPECT_FALSE(engine_->Serves("", ""));
}

TEST_P(EngineConformanceTest, DescribesTheModel) {
  const auto description = engine_->Describe(spec_);
  ASSERT_TRUE(description.ok()) << description.status().ToString();
  EXPECT_EQ(description->batchable, model().batchable);
  for (const auto& [got, wanted] :
       {std::pair(description->inputs, spec_.inputs), std::pair(description->outputs, spec_.outputs)}) {
    ASSERT_EQ(got.size(), wanted.size());
    for (const TensorSpec& tensor : wanted) {
      const auto found =
          std::find_if(got.begin(), got.end(), [&](const TensorSpec& t) { return t.name == tensor.name; });
      ASSERT_NE(found, got.end()) << tensor.name;
      EXPECT_EQ(found->type, tensor.type) << tensor.name;
      EXPECT_EQ(found->dims.rank(), tensor.dims.rank() + (spec_.max_batch_size > 0 ? 1 : 0)) << tensor.name;
    }
  }
}

TEST_P(EngineConformanceTest, AnswersEveryBatchSize) {
  const auto loaded = LoadOrFail();
  ASSERT_NE(loaded, nullptr);
  auto instance = loaded->NewInstance(0);
  ASSERT_TRUE(instance.ok()) << instance.status().ToString();
  base::Rng rng(kSeed);
  for (const int64_t rows : RowCounts(spec_)) RunAndCompare(instance->get(), rows, rng);
  // Downwards too: what a larger batch left behind must not show.
  std::vector<int64_t> counts = RowCounts(spec_);
  std::reverse(counts.begin(), counts.end());
  for (const int64_t rows : counts) RunAndCompare(instance->get(), rows, rng);
}

TEST_P(EngineConformanceTest, RowsDoNotInfluenceEachOther) {
  if (spec_.max_batch_size < 2) GTEST_SKIP() << "no batches";
  const auto loaded = LoadOrFail();
  ASSERT_NE(loaded, nullptr);
  auto instance = loaded->NewInstance(0);
  ASSERT_TRUE(instance.ok()) << instance.status().ToString();
  base::Rng rng(kSeed + 1);
  const int64_t rows = std::min<int64_t>(spec_.max_batch_size, 5);
  const std::vector<Tensor> inputs = model().make_inputs(rows, rng);
  RecordingSink together(spec_.outputs);
  ASSERT_TRUE(RunBatch(instance->get(), inputs, rows, &together).ok());
  for (int64_t row = 0; row < rows; ++row) {
    std::vector<Tensor> one;
    one.reserve(inputs.size());
    for (const Tensor& input : inputs) one.push_back(RowOf(input, row));
    RecordingSink alone(spec_.outputs);
    ASSERT_TRUE(RunBatch(instance->get(), one, 1, &alone).ok());
    for (size_t i = 0; i < spec_.outputs.size(); ++i) {
      EXPECT_TRUE(SameTensor(*alone.Take(i), RowOf(*together.Take(i), row), model().tolerance))
          << "row " << row;
    }
  }
}

TEST_P(EngineConformanceTest, GivesWantedOutputs) {
  const auto loaded = LoadOrFail();
  ASSERT_NE(loaded, nullptr);
  auto instance = loaded->NewInstance(0);
  ASSERT_TRUE(instance.ok()) << instance.status().ToString();
  base::Rng rng(kSeed + 2);
  RunAndCompare(instance->get(), 1, rng);
  for (size_t only = 0; only < spec_.outputs.size(); ++only) {
    const std::vector<Tensor> inputs = model().make_inputs(1, rng);
    RecordingSink sink(spec_.outputs);
    sink.WantOnly({only});
    const base::Status status = RunBatch(instance->get(), inputs, 1, &sink);
    ASSERT_TRUE(status.ok()) << status.ToString();
    const auto got = sink.Take(only);
    ASSERT_TRUE(got.has_value());
    EXPECT_TRUE(SameTensor(*got, model().reference(inputs, 1)[only], model().tolerance));
  }
  RunAndCompare(instance->get(), 1, rng);
}

TEST_P(EngineConformanceTest, InstancesRunAtOnce) {
  spec_.instance_count = 3;
  const auto loaded = LoadOrFail();
  ASSERT_NE(loaded, nullptr);
  std::vector<std::unique_ptr<EngineInstance>> instances;
  for (int i = 0; i < 3; ++i) {
    auto instance = loaded->NewInstance(i);
    ASSERT_TRUE(instance.ok()) << instance.status().ToString();
    instances.push_back(std::move(instance).value());
  }
  std::vector<std::thread> threads;
  for (size_t i = 0; i < instances.size(); ++i) {
    threads.emplace_back([&, i] {
      base::Rng rng(kSeed + 100 + i);
      const std::vector<int64_t> counts = RowCounts(spec_);
      for (size_t k = 0; k < 20; ++k) RunAndCompare(instances[i].get(), counts[(i + k) % counts.size()], rng);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(EngineConformanceTest, RefusedMemoryFailsOnlyThatRun) {
  if (!model().fails_on_cap) GTEST_SKIP() << "outputs take no memory";
  const auto loaded = LoadOrFail();
  ASSERT_NE(loaded, nullptr);
  auto instance = loaded->NewInstance(0);
  ASSERT_TRUE(instance.ok()) << instance.status().ToString();
  base::Rng rng(kSeed + 3);
  const std::vector<Tensor> inputs = model().make_inputs(1, rng);
  RecordingSink sink(spec_.outputs);
  sink.CapBytes(0);
  const base::Status status = RunBatch(instance->get(), inputs, 1, &sink);
  EXPECT_EQ(status.code(), base::StatusCode::kResourceExhausted) << status.ToString();
  RunAndCompare(instance->get(), 1, rng);
}

TEST_P(EngineConformanceTest, LoadingAgainDoesNotGrow) {
  base::Rng rng(kSeed + 4);
  int64_t second_third_kb = 0;
  for (int i = 0; i < model().reloads; ++i) {
    const auto loaded = LoadOrFail();
    ASSERT_NE(loaded, nullptr);
    auto instance = loaded->NewInstance(0);
    ASSERT_TRUE(instance.ok()) << instance.status().ToString();
    RunAndCompare(instance->get(), 1, rng);
    if (i == 2 * model().reloads / 3) {
      malloc_trim(0);
      second_third_kb = ResidentKb();
    }
  }
  malloc_trim(0);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LE(ResidentKb() - second_third_kb, model().growth_kb_max);
#endif
}

TEST_P(EngineConformanceTest, MissingFileIsNamed) {
  if (model().files.empty()) GTEST_SKIP() << "a model without files";
  std::filesystem::remove_all(folder_);
  for (const base::Status& status : {engine_->Load(spec_).status(), engine_->Describe(spec_).status()}) {
    EXPECT_EQ(status.code(), base::StatusCode::kNotFound) << status.ToString();
    EXPECT_NE(status.message().find(folder_), std::string::npos) << status.ToString();
  }
}

TEST_P(EngineConformanceTest, BrokenFilesAreRefused) {
  if (model().files.empty()) GTEST_SKIP() << "a model without files";
  base::Rng rng(kSeed + 5);
  const auto expect_refused = [&](const std::string& what) {
    for (const base::Status& status : {engine_->Load(spec_).status(), engine_->Describe(spec_).status()}) {
      EXPECT_FALSE(status.ok()) << what;
      EXPECT_NE(status.message().find(folder_), std::string::npos) << what << ": " << status.ToString();
    }
  };
  WriteFiles([](std::string* content) { content->clear(); });
  expect_refused("empty");
  WriteFiles([&](std::string* content) {
    for (char& c : *content) c = static_cast<char>(rng.Next32());
  });
  expect_refused("noise");
  WriteFiles([](std::string* content) { content->resize(content->size() / 2); });
  expect_refused("half");
  WriteFiles();
  EXPECT_NE(LoadOrFail(), nullptr);
}

// Damage that a parser may or may not notice must at least not end the process.
TEST_P(EngineConformanceTest, DamagedFilesDoNoHarm) {
  if (model().files.empty()) GTEST_SKIP() << "a model without files";
  base::Rng rng(kSeed + 6);
  for (int i = 0; i < 25; ++i) {
    WriteFiles([&](std::string* content) {
      if (content->empty()) return;
      if (rng.Below(2) == 0) {
        content->resize(rng.Below(content->size()));
      } else {
        for (int k = 0; k < 3; ++k)
          (*content)[rng.Below(content->size())] ^= static_cast<char>(1 + rng.Below(255));
      }
    });
    const auto loaded = engine_->Load(spec_);
    if (loaded.ok()) continue;
    EXPECT_FALSE(loaded.status().message().empty());
  }
  WriteFiles();
  const auto loaded = LoadOrFail();
  ASSERT_NE(loaded, nullptr);
  auto instance = loaded->NewInstance(0);
  ASSERT_TRUE(instance.ok()) << instance.status().ToString();
  RunAndCompare(instance->get(), 1, rng);
}

}  // namespace stoker::engines::testing
