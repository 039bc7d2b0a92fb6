// The identity engine: what the conformance suite asks of every engine, and Triton's rules for the
// backend of that name.
#include <gtest/gtest.h>

#include <stoker/engines/engines.h>
#include <stoker/engines/testing/conformance.h>
#include <stoker/engines/testing/recording_sink.h>

namespace stoker::engines {
namespace {

using tensor::DataType;
using tensor::Tensor;
using testing::ConformanceModel;
using testing::EngineConformanceTest;

ModelSpec IdentitySpec() {
  ModelSpec spec;
  spec.name = "ident";
  spec.backend = "identity";
  spec.max_batch_size = 8;
  spec.inputs = {{.name = "INPUT0", .type = DataType::kFp32, .dims = {-1}},
                 {.name = "INPUT1", .type = DataType::kBytes, .dims = {2}, .optional = true}};
  spec.outputs = {{.name = "OUTPUT1", .type = DataType::kBytes, .dims = {2}},
                  {.name = "OUTPUT0", .type = DataType::kFp32, .dims = {-1}}};
  return spec;
}

ConformanceModel IdentityModel() {
  ConformanceModel model;
  model.label = "Identity";
  model.make_engine = [] { return MakeIdentityEngine(); };
  model.spec = IdentitySpec();
  model.fails_on_cap = false;
  model.make_inputs = [](int64_t rows, base::Rng& rng) {
    std::vector<float> numbers(static_cast<size_t>(rows) * 3);
    for (float& number : numbers) number = static_cast<float>(rng.Uniform());
    std::vector<std::string> texts;
    for (int64_t i = 0; i < 2 * rows; ++i) texts.push_back(std::string(rng.Below(5), 'x'));
    return std::vector<Tensor>{testing::MakeTensor(DataType::kFp32, {rows, 3}, numbers),
                               testing::MakeTextTensor({rows, 2}, texts)};
  };
  model.reference = [](const std::vector<Tensor>& inputs, int64_t) {
    return std::vector<Tensor>{inputs[1], inputs[0]};
  };
  return model;
}

INSTANTIATE_TEST_SUITE_P(Identity, EngineConformanceTest, ::testing::Values(IdentityModel()),
                         testing::ConformanceName);

TEST(IdentityTest, PassesTheVeryBytes) {
  const auto engine = MakeIdentityEngine();
  ModelSpec spec = IdentitySpec();
  auto model = engine->Load(spec);
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  EXPECT_TRUE((*model)->traits().run_inline);
  EXPECT_TRUE((*model)->traits().request_wise);
  auto instance = (*model)->NewInstance(0);
  ASSERT_TRUE(instance.ok());
  base::Rng rng(7);
  const auto inputs = IdentityModel().make_inputs(2, rng);
  const int64_t rows = 2;
  testing::RecordingSink sink(spec.outputs);
  ASSERT_TRUE((*instance)->Run({.rows = 2, .inputs = inputs, .request_rows = {&rows, 1}}, &sink).ok());
  EXPECT_EQ(sink.Take(0)->bytes.data(), inputs[1].bytes.data());
  EXPECT_EQ(sink.Take(1)->bytes.data(), inputs[0].bytes.data());
}

TEST(IdentityTest, AbsentInputFailsOnlyWhenItsOutputIsWanted) {
  const auto engine = MakeIdentityEngine();
  ModelSpec spec = IdentitySpec();
  auto model = engine->Load(spec);
  ASSERT_TRUE(model.ok());
  auto instance = (*model)->NewInstance(0);
  base::Rng rng(7);
  auto inputs = IdentityModel().make_inputs(1, rng);
  inputs[1] = {};
  const int64_t rows = 1;
  testing::RecordingSink all(spec.outputs);
  const base::Status status =
      (*instance)->Run({.rows = 1, .inputs = inputs, .request_rows = {&rows, 1}}, &all);
  EXPECT_EQ(status.code(), base::StatusCode::kInternal);
  EXPECT_NE(status.message().find("failed to get input 'INPUT1'"), std::string::npos) << status.message();
  testing::RecordingSink some(spec.outputs);
  some.WantOnly({1});
  EXPECT_TRUE((*instance)->Run({.rows = 1, .inputs = inputs, .request_rows = {&rows, 1}}, &some).ok());
}

TEST(IdentityTest, DelaysAsConfigured) {
  std::vector<int64_t> slept;
  const auto engine =
      MakeIdentityEngine({.module_folders = {}, .sleep_ns = [&](int64_t ns) { slept.push_back(ns); }});
  ModelSpec spec = IdentitySpec();
  spec.parameters = {
      {"execute_delay_ms", "20"}, {"instance_wise_delay_multiplier", "3"}, {"creation_delay_sec", "2"}};
  auto model = engine->Load(spec);
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  EXPECT_EQ(slept, std::vector<int64_t>{2000000000});
  EXPECT_FALSE((*model)->traits().run_inline);
  auto instance = (*model)->NewInstance(1);
  base::Rng rng(7);
  const auto inputs = IdentityModel().make_inputs(1, rng);
  const int64_t rows = 1;
  testing::RecordingSink sink(spec.outputs);
  ASSERT_TRUE((*instance)->Run({.rows = 1, .inputs = inputs, .request_rows = {&rows, 1}}, &sink).ok());
  EXPECT_EQ(slept.back(), 20000000);
}

TEST(IdentityTest, RefusesWhatDoesNotPair) {
  const auto engine = MakeIdentityEngine();
  const auto message = [&](const std::function<void(ModelSpec*)>& change) {
    ModelSpec spec = IdentitySpec();
    change(&spec);
    const auto model = engine->Load(spec);
    return model.ok() ? std::string("loaded") : model.status().message();
  };
  const auto expect = [&](const std::function<void(ModelSpec*)>& change, const std::string& fragment) {
    EXPECT_NE(message(change).find(fragment), std::string::npos) << message(change);
  };
  expect([](ModelSpec* s) { s->outputs.pop_back(); }, "must have equal input/output pairs");
  expect([](ModelSpec* s) { s->inputs[0].name = "data"; },
         "expected input name to follow INPUT<index> pattern, got 'data'");
  expect([](ModelSpec* s) { s->outputs[0].name = "data"; },
         "expected output name to follow OUTPUT<index> pattern, got 'data'");
  expect([](ModelSpec* s) { s->outputs[0].name = "OUTPUT7"; }, "expected input and output indices to match");
  expect([](ModelSpec* s) { s->outputs[0].type = DataType::kInt8; },
         "expected input and output datatype to match");
  expect([](ModelSpec* s) { s->outputs[1].dims = {4}; }, "expected input and output shape to match");
  expect([](ModelSpec* s) { s->parameters["execute_delay_ms"] = "soon"; }, "parameter 'execute_delay_ms'");
  expect([](ModelSpec* s) { s->parameters["execute_delay_ms"] = "-1"; }, "a whole number from 0");
}

TEST(IdentityTest, InputsThatTheHostMakesHaveNoOutput) {
  const auto engine = MakeIdentityEngine();
  ModelSpec spec = IdentitySpec();
  for (const char* name : {"COUNT", "INPUT7"}) {
    spec.inputs.push_back({.name = name, .type = DataType::kFp32, .dims = {1}, .from_host = true});
  }
  const auto model = engine->Load(spec);
  EXPECT_TRUE(model.ok()) << model.status().ToString();
}

}  // namespace
}  // namespace stoker::engines
