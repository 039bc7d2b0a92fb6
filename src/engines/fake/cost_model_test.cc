// The cost model: answers that give away wrongly formed batches, costs and failures as configured.
#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include <stoker/engines/engines.h>
#include <stoker/engines/testing/conformance.h>
#include <stoker/engines/testing/recording_sink.h>

namespace stoker::engines {
namespace {

using tensor::DataType;
using tensor::Tensor;
using testing::ConformanceModel;
using testing::EngineConformanceTest;

ModelSpec FakeSpec() {
  ModelSpec spec;
  spec.name = "fake";
  spec.backend = "stoker_fake";
  spec.max_batch_size = 16;
  spec.parameters = {{"stoker.scale", "0.5"}};
  spec.inputs = {{.name = "numbers", .type = DataType::kFp32, .dims = {3}},
                 {.name = "texts", .type = DataType::kBytes, .dims = {2}}};
  spec.outputs = {{.name = "y", .type = DataType::kFp32, .dims = {2}}};
  return spec;
}

std::vector<Tensor> FakeInputs(int64_t rows, base::Rng& rng) {
  std::vector<float> numbers(static_cast<size_t>(rows) * 3);
  for (float& number : numbers) number = static_cast<float>(rng.Below(1000));
  std::vector<std::string> texts;
  for (int64_t i = 0; i < 2 * rows; ++i)
    texts.push_back(std::string(rng.Below(5), static_cast<char>(rng.Below(256))));
  return {testing::MakeTensor(DataType::kFp32, {rows, 3}, numbers),
          testing::MakeTextTensor({rows, 2}, texts)};
}

// Sums by hand, row by row, without the engine's reader.
std::vector<Tensor> FakeReference(const std::vector<Tensor>& inputs, int64_t rows) {
  const std::vector<float> numbers = testing::Floats(inputs[0]);
  const std::string_view texts = inputs[1].bytes.text();
  std::vector<float> y;
  size_t at = 0;
  for (int64_t row = 0; row < rows; ++row) {
    double sum = 0;
    for (size_t i = 0; i < 3; ++i) sum += numbers[static_cast<size_t>(row) * 3 + i];
    for (int i = 0; i < 2; ++i) {
      const size_t length = static_cast<uint8_t>(texts[at]);
      for (size_t k = 0; k < length; ++k) sum += 2.0 * static_cast<uint8_t>(texts[at + 4 + k]);
      at += 4 + length;
    }
    y.push_back(static_cast<float>(0.5 * sum));
    y.push_back(static_cast<float>(0.5 * 2 * sum));
  }
  return {testing::MakeTensor(DataType::kFp32, {rows, 2}, y)};
}

ConformanceModel FakeModel() {
  ConformanceModel model;
  model.label = "CostModel";
  model.make_engine = [] { return MakeFakeEngine(); };
  model.spec = FakeSpec();
  model.make_inputs = FakeInputs;
  model.reference = FakeReference;
  return model;
}

INSTANTIATE_TEST_SUITE_P(Fake, EngineConformanceTest, ::testing::Values(FakeModel()),
                         testing::ConformanceName);

TEST(CostModelTest, CostsAndFailsAsConfigured) {
  std::vector<int64_t> slept;
  const auto engine =
      MakeFakeEngine({.module_folders = {}, .sleep_ns = [&](int64_t ns) { slept.push_back(ns); }});
  ModelSpec spec = FakeSpec();
  spec.parameters = {
      {"stoker.cost_base_us", "100"}, {"stoker.cost_per_row_us", "7"}, {"stoker.fail_every", "3"}};
  auto model = engine->Load(spec);
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  auto first = (*model)->NewInstance(0);
  auto second = (*model)->NewInstance(1);
  base::Rng rng(3);
  std::string outcome;
  for (int i = 0; i < 6; ++i) {
    const int64_t rows = i + 1;
    const auto inputs = FakeInputs(rows, rng);
    testing::RecordingSink sink(spec.outputs);
    auto& instance = i % 2 == 0 ? *first : *second;
    outcome +=
        instance->Run({.rows = rows, .inputs = inputs, .request_rows = {&rows, 1}}, &sink).ok() ? '.' : 'x';
    EXPECT_EQ(slept.back(), (100 + 7 * rows) * 1000);
  }
  EXPECT_EQ(outcome, "..x..x");
}

TEST(CostModelTest, SumsEveryDatatype) {
  const auto engine = MakeFakeEngine();
  const auto answer = [&](DataType type, const auto& values) {
    ModelSpec spec;
    spec.name = "fake";
    spec.backend = "stoker_fake";
    const auto count = static_cast<int64_t>(values.size());
    spec.inputs = {{.name = "x", .type = type, .dims = {count}}};
    spec.outputs = {{.name = "y", .type = DataType::kFp32, .dims = {1}}};
    auto model = engine->Load(spec);
    EXPECT_TRUE(model.ok()) << model.status().ToString();
    auto instance = (*model)->NewInstance(0);
    const std::vector<Tensor> inputs = {testing::MakeTensor(type, {count}, values)};
    const int64_t rows = 1;
    testing::RecordingSink sink(spec.outputs);
    EXPECT_TRUE((*instance)->Run({.rows = 1, .inputs = inputs, .request_rows = {&rows, 1}}, &sink).ok());
    return testing::Floats(*sink.Take(0)).at(0);
  };
  EXPECT_EQ(answer(DataType::kBool, std::vector<uint8_t>{1, 0, 1}), 2);
  EXPECT_EQ(answer(DataType::kUint8, std::vector<uint8_t>{200, 100}), 300);
  EXPECT_EQ(answer(DataType::kUint16, std::vector<uint16_t>{65535, 1}), 65536);
  EXPECT_EQ(answer(DataType::kUint32, std::vector<uint32_t>{3000000000U}), 3e9F);
  EXPECT_EQ(answer(DataType::kUint64, std::vector<uint64_t>{1ULL << 40}), static_cast<float>(1ULL << 40));
  EXPECT_EQ(answer(DataType::kInt8, std::vector<int8_t>{-100, -28}), -128);
  EXPECT_EQ(answer(DataType::kInt16, std::vector<int16_t>{-3000, 1}), -2999);
  EXPECT_EQ(answer(DataType::kInt32, std::vector<int32_t>{-7, 3}), -4);
  EXPECT_EQ(answer(DataType::kInt64, std::vector<int64_t>{-(1LL << 40)}), -static_cast<float>(1LL << 40));
  EXPECT_EQ(answer(DataType::kFp16, std::vector<uint16_t>{0x3c00, 0xc000, 0x3800}), -0.5F);
  EXPECT_EQ(answer(DataType::kBf16, std::vector<uint16_t>{0x3f80, 0x4000}), 3);
  EXPECT_EQ(answer(DataType::kFp64, std::vector<double>{0.25, 1e3}), 1000.25F);
}

TEST(CostModelTest, RefusesWhatItCannotMake) {
  const auto engine = MakeFakeEngine();
  ModelSpec spec = FakeSpec();
  spec.outputs[0].dims = {-1};
  EXPECT_NE(engine->Load(spec).status().message().find("with fixed dims only"), std::string::npos);
  spec = FakeSpec();
  spec.outputs[0].type = DataType::kInt32;
  EXPECT_NE(engine->Load(spec).status().message().find("TYPE_INT32"), std::string::npos);
  spec = FakeSpec();
  spec.parameters["stoker.scale"] = "much";
  EXPECT_NE(engine->Load(spec).status().message().find("parameter 'stoker.scale'"), std::string::npos);
  spec = FakeSpec();
  spec.inputs.clear();
  EXPECT_EQ(engine->Describe(spec).status().code(), base::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace stoker::engines
