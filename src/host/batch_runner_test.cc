// Aim: what goes into a batch comes out at the right request. Method: batches built by hand; inputs as
// the engine saw them and answers are compared with bytes worked out by hand.
#include "batch_runner.h"

#include <gtest/gtest.h>

#include "test_engine.h"

namespace stoker::host {
namespace {

using tensor::DataType;
using tensor::Shape;

std::string Floats(std::initializer_list<float> values) {
  return {reinterpret_cast<const char*>(values.begin()), values.size() * sizeof(float)};
}

std::string Ints(std::initializer_list<int32_t> values) {
  return {reinterpret_cast<const char*>(values.begin()), values.size() * sizeof(int32_t)};
}

IoConfig Io(std::string name, DataType type, Shape dims) {
  IoConfig io;
  io.name = std::move(name);
  io.type = type;
  io.dims = std::move(dims);
  return io;
}

class BatchRunnerTest : public ::testing::Test {
 protected:
  BatchRunnerTest() {
    config_.name = "m";
    config_.max_batch_size = 8;
    config_.inputs = {Io("IN", DataType::kFp32, {-1})};
    config_.outputs = {Io("OUT", DataType::kFp32, {-1})};
  }

  void Make(engines::Engine* engine, size_t output_bytes_max = 1 << 20) {
    auto plan = MakeIoPlan(config_);
    ASSERT_TRUE(plan.ok()) << plan.status().ToString();
    plan_ = std::make_unique<IoPlan>(std::move(*plan));
    engines::ModelSpec spec;
    spec.name = "m";
    spec.max_batch_size = config_.max_batch_size;
    DescribeForEngine(*plan_, &spec);
    auto model = engine->Load(spec);
    ASSERT_TRUE(model.ok()) << model.status().ToString();
    model_ = std::move(*model);
    runner_ = std::make_unique<BatchRunner>(std::move(*model_->NewInstance(0)),
                                            RunnerOptions{.plan = plan_.get(),
                                                          .pool = &pool_,
                                                          .clock = &base::Clock::Real(),
                                                          .lease = lease_.get(),
                                                          .traits = model_->traits(),
                                                          .input_alignment = model_->input_alignment(),
                                                          .output_bytes_max = output_bytes_max});
  }

  void Add(Shape shape, std::string bytes, DataType type = DataType::kFp32) {
    InferRequest& request = requests_.emplace_back();
    request.inputs.push_back(
        {plan_->inputs[0].name, {type, std::move(shape), base::Bytes::Own(std::move(bytes))}});
  }

  std::span<const Execution> Run() {
    checked_.resize(requests_.size());
    items_ = std::vector<BatchItem>(requests_.size());
    for (size_t i = 0; i < requests_.size(); ++i) {
      const base::Status status = CheckRequest(*plan_, &requests_[i], &checked_[i]);
      EXPECT_TRUE(status.ok()) << status.ToString();
      items_[i].request = &requests_[i];
      items_[i].checked = &checked_[i];
    }
    return runner_->Run(items_, base::Clock::Real().NowNs());
  }

  const tensor::Tensor& Output(size_t item) { return items_[item].response.outputs.at(0).tensor; }
  tensor::Tensor Seen(size_t input) { return engine_.runs().back().inputs.at(input); }

  ModelConfig config_;
  TestEngine engine_;
  BufferPool pool_{1 << 20};
  std::unique_ptr<device::Lease> lease_ = device::MakeOpenLease();
  std::unique_ptr<IoPlan> plan_;
  std::unique_ptr<engines::EngineModel> model_;
  std::unique_ptr<BatchRunner> runner_;
  std::vector<InferRequest> requests_;
  std::vector<CheckedRequest> checked_;
  std::vector<BatchItem> items_;
};

TEST_F(BatchRunnerTest, RowsComeBackToTheirRequestsAsSlicesOfOneOutput) {
  Make(&engine_);
  Add({1, 2}, Floats({1, 2}));
  Add({3, 2}, Floats({3, 4, 5, 6, 7, 8}));
  Add({1, 2}, Floats({9, 10}));
  const auto executions = Run();
  ASSERT_EQ(executions.size(), 1u);
  EXPECT_EQ(executions[0].rows, 5);
  EXPECT_EQ(engine_.runs().back().inputs[0].shape, (Shape{5, 2}));
  EXPECT_EQ(engine_.runs().back().request_rows, (std::vector<int64_t>{1, 3, 1}));
  EXPECT_EQ(Output(0).bytes.text(), Floats({1, 2}));
  EXPECT_EQ(Output(1).bytes.text(), Floats({3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(Output(1).shape, (Shape{3, 2}));
  EXPECT_EQ(Output(2).bytes.text(), Floats({9, 10}));
  EXPECT_EQ(Output(2).bytes.data(), Output(0).bytes.data() + 32) << "no copy was to be made";
  EXPECT_EQ(items_[1].response.timing.batch_rows, 5);
  EXPECT_FALSE(engine_.misaligned());
}

TEST_F(BatchRunnerTest, StringsAreCutAtElements) {
  config_.inputs[0].type = config_.outputs[0].type = DataType::kBytes;
  Make(&engine_);
  std::string first, second;
  for (const char* text : {"a", "", "three"}) tensor::AppendBytesElement(&first, text);
  for (const char* text : {"x", "yy", "z", "", "", "long enough"}) tensor::AppendBytesElement(&second, text);
  Add({1, 3}, first, DataType::kBytes);
  Add({2, 3}, second, DataType::kBytes);
  Run();
  EXPECT_EQ(Output(0).bytes.text(), first);
  EXPECT_EQ(Output(1).bytes.text(), second);
  EXPECT_EQ(Output(1).shape, (Shape{2, 3}));
}

TEST_F(BatchRunnerTest, AMisalignedRequestIsCopied) {
  Make(&engine_);
  const base::Bytes buffer = base::Bytes::Own(std::string(7, 'x') + Floats({1, 2}) + std::string(64, 'y'));
  Add({1, 2}, "");
  requests_[0].inputs[0].tensor.bytes = buffer.Slice(7, 8);
  Run();
  EXPECT_EQ(Output(0).bytes.text(), Floats({1, 2}));
  EXPECT_FALSE(engine_.misaligned());
}

TEST_F(BatchRunnerTest, ReshapeWorksBothWays) {
  config_.inputs[0].dims = {1, -1};
  config_.inputs[0].has_reshape = true;
  config_.inputs[0].reshape = {-1};
  config_.outputs[0].dims = {-1, 1, 1};
  config_.outputs[0].has_reshape = true;
  config_.outputs[0].reshape = {-1};
  Make(&engine_);
  Add({1, 1, 2}, Floats({1, 2}));
  Run();
  EXPECT_EQ(Seen(0).shape, (Shape{1, 2}));
  EXPECT_EQ(Output(0).shape, (Shape{1, 2, 1, 1}));
  requests_.clear();
  Add({2, 1, 2}, Floats({1, 2, 3, 4}));
  Add({1, 1, 2}, Floats({5, 6}));
  Run();
  EXPECT_EQ(Seen(0).shape, (Shape{3, 2}));
  EXPECT_EQ(Output(0).shape, (Shape{2, 2, 1, 1}));
  EXPECT_EQ(Output(1).bytes.text(), Floats({5, 6}));
}

TEST_F(BatchRunnerTest, RaggedInputsWithEveryKindOfBatchInput) {
  using Kind = BatchInputConfig::Kind;
  config_.inputs[0].allow_ragged_batch = true;
  config_.batch_inputs = {{Kind::kElementCount, {"COUNT"}, DataType::kInt32, {"IN"}},
                          {Kind::kAccumulatedElementCount, {"SUM"}, DataType::kInt32, {"IN"}},
                          {Kind::kAccumulatedElementCountWithZero, {"SUM0"}, DataType::kFp32, {"IN"}},
                          {Kind::kMaxElementCountAsShape, {"MAX"}, DataType::kFp32, {"IN"}},
                          {Kind::kItemShape, {"SHAPE"}, DataType::kInt32, {"IN"}},
                          {Kind::kItemShapeFlatten, {"FLAT"}, DataType::kInt32, {"IN"}}};
  config_.batch_outputs = {{{"OUT"}, {"IN"}}};
  Make(&engine_);
  Add({1, 3}, Floats({1, 2, 3}));
  Add({2, 2}, Floats({4, 5, 6, 7}));
  Run();
  EXPECT_EQ(Seen(0).shape, Shape{7});
  EXPECT_EQ(Seen(0).bytes.text(), Floats({1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(Seen(1).bytes.text(), Ints({3, 4}));
  EXPECT_EQ(Seen(2).bytes.text(), Ints({3, 7}));
  EXPECT_EQ(Seen(3).bytes.text(), Floats({0, 3, 7}));
  EXPECT_EQ(Seen(3).shape, Shape{3});
  EXPECT_EQ(Seen(4).shape, Shape{4});
  EXPECT_EQ(Seen(5).bytes.text(), Ints({3, 2, 2}));
  EXPECT_EQ(Seen(5).shape, (Shape{3, 1}));
  EXPECT_EQ(Seen(6).shape, Shape{3});
  EXPECT_EQ(Output(0).shape, (Shape{1, 3}));
  EXPECT_EQ(Output(0).bytes.text(), Floats({1, 2, 3}));
  EXPECT_EQ(Output(1).shape, (Shape{2, 2}));
  EXPECT_EQ(Output(1).bytes.text(), Floats({4, 5, 6, 7}));
}

TEST_F(BatchRunnerTest, IdentityPassesRaggedRequestsThrough) {
  const auto known = MakeKnownEngines("");
  config_.inputs = {Io("INPUT0", DataType::kFp32, {-1})};
  config_.inputs[0].allow_ragged_batch = true;
  config_.outputs = {Io("OUTPUT0", DataType::kFp32, {-1})};
  Make(*known->ForConfig("identity", ""));
  Add({1, 3}, Floats({1, 2, 3}));
  Add({2, 1}, Floats({4, 5}));
  const auto executions = Run();
  EXPECT_EQ(executions.size(), 1u);
  EXPECT_EQ(Output(0).shape, (Shape{1, 3}));
  EXPECT_EQ(Output(0).bytes.text(), Floats({1, 2, 3}));
  EXPECT_EQ(Output(1).shape, (Shape{2, 1}));
  EXPECT_EQ(Output(1).bytes.text(), Floats({4, 5}));
}

TEST_F(BatchRunnerTest, OneBadRequestFailsAlone) {
  Make(&engine_);
  Add({1, 1}, Floats({1}));
  Add({2, 1}, Floats({2, TestEngine::kPoison}));
  Add({1, 1}, Floats({3}));
  const auto executions = Run();
  EXPECT_EQ(executions.size(), 4u);
  EXPECT_TRUE(items_[0].response.status.ok());
  EXPECT_EQ(items_[1].response.status.code(), base::StatusCode::kInternal);
  EXPECT_TRUE(items_[1].response.outputs.empty());
  EXPECT_TRUE(items_[2].response.status.ok());
  EXPECT_EQ(Output(2).bytes.text(), Floats({3}));
}

TEST_F(BatchRunnerTest, OutputsBeyondTheCapAreRefused) {
  Make(&engine_, 16);
  Add({1, 2}, Floats({1, 2}));
  Add({1, 2}, Floats({3, 4}));
  Run();
  EXPECT_TRUE(items_[0].response.status.ok()) << items_[0].response.status.ToString();
  Add({1, 2}, Floats({5, 6}));
  Run();
  EXPECT_EQ(items_[0].response.status.code(), base::StatusCode::kResourceExhausted);
  EXPECT_NE(items_[0].response.status.message().find("16 bytes"), std::string::npos);
}

TEST_F(BatchRunnerTest, OnlyWantedOutputsAreAnswered) {
  config_.outputs.push_back(Io("OUT2", DataType::kFp32, {-1}));
  Make(&engine_);
  Add({1, 1}, Floats({1}));
  Add({1, 1}, Floats({2}));
  requests_[0].requested_outputs = {"OUT2"};
  requests_[1].requested_outputs = {"OUT"};
  Run();
  ASSERT_EQ(items_[0].response.outputs.size(), 1u);
  EXPECT_EQ(items_[0].response.outputs[0].index, 1u);
  ASSERT_EQ(items_[1].response.outputs.size(), 1u);
  EXPECT_EQ(items_[1].response.outputs[0].index, 0u);
  EXPECT_EQ(Output(1).bytes.text(), Floats({2}));
}

TEST(BufferPoolTest, HandsMemoryOutAgainWithinItsBound) {
  BufferPool pool(100'000);
  std::byte* first = nullptr;
  {
    const auto memory = pool.Allocate(60'000);
    first = memory.get();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 64, 0u);
  }
  EXPECT_EQ(pool.idle_bytes(), 65'536u);
  EXPECT_EQ(pool.Allocate(40'000).get(), first);
  { const auto more = pool.Allocate(60'000), others = pool.Allocate(60'000); }
  EXPECT_LE(pool.idle_bytes(), 100'000u);
  { const auto large = pool.Allocate(1 << 20); }
  EXPECT_LE(pool.idle_bytes(), 100'000u);
  std::shared_ptr<std::byte> outlives;
  {
    BufferPool other(1 << 20);
    outlives = other.Allocate(50'000);
  }
  outlives.get()[49'999] = std::byte{1};
}

}  // namespace
}  // namespace stoker::host
