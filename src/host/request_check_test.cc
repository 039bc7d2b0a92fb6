// Aim: every fault of a request is refused with the words that Triton's clients know, and right requests
// pass. Method: a table of requests against models of different kinds, texts as the real server gives them.
#include "request_check.h"

#include <gtest/gtest.h>

namespace stoker::host {
namespace {

using tensor::DataType;
using tensor::Shape;

IoConfig Io(std::string name, DataType type, Shape dims) {
  IoConfig io;
  io.name = std::move(name);
  io.type = type;
  io.dims = std::move(dims);
  return io;
}

IoPlan PlanOf(ModelConfig config) {
  config.name = "m";
  if (config.outputs.empty())
    config.outputs = {Io("OUT", DataType::kFp32, {-1}), Io("OTHER", DataType::kFp32, {-1})};
  auto plan = MakeIoPlan(config);
  EXPECT_TRUE(plan.ok()) << plan.status().ToString();
  return std::move(*plan);
}

ModelConfig Batched() {
  ModelConfig config;
  config.max_batch_size = 4;
  config.inputs = {Io("A", DataType::kFp32, {2, -1}), Io("B", DataType::kInt32, {1})};
  return config;
}

ModelConfig Single(Shape dims, DataType type = DataType::kFp32) {
  ModelConfig config;
  config.inputs = {Io("A", type, std::move(dims))};
  return config;
}

InferInput In(std::string_view name, DataType type, Shape shape, size_t bytes) {
  return {name, {type, std::move(shape), base::Bytes::Own(std::string(bytes, '\1'))}};
}

std::string Refusal(const IoPlan& plan, std::vector<InferInput> inputs,
                    std::vector<std::string_view> outputs = {}) {
  InferRequest request;
  request.inputs = std::move(inputs);
  request.requested_outputs = std::move(outputs);
  CheckedRequest checked;
  const base::Status status = CheckRequest(plan, &request, &checked);
  EXPECT_TRUE(status.ok() || status.code() == base::StatusCode::kInvalidArgument) << status.ToString();
  return status.message();
}

void ExpectRefusal(const std::string& got, std::string_view wanted) {
  EXPECT_NE(got.find(wanted), std::string::npos) << "got:    " << got << "\nwanted: " << wanted;
}

TEST(RequestCheckTest, TakesWhatFitsInAnyOrder) {
  const IoPlan plan = PlanOf(Batched());
  InferRequest request;
  request.inputs = {In("B", DataType::kInt32, {3, 1}, 12), In("A", DataType::kFp32, {3, 2, 5}, 120)};
  request.requested_outputs = {"OTHER", "OTHER"};
  CheckedRequest checked;
  const base::Status status = CheckRequest(plan, &request, &checked);
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(checked.rows, 3);
  EXPECT_EQ(request.inputs[0].name, "A");
  EXPECT_EQ(request.inputs[1].name, "B");
  EXPECT_FALSE(checked.wanted.Has(0));
  EXPECT_TRUE(checked.wanted.Has(1));
}

TEST(RequestCheckTest, CountsAndNames) {
  const IoPlan plan = PlanOf(Batched());
  const InferInput a = In("A", DataType::kFp32, {1, 2, 1}, 8);
  const InferInput b = In("B", DataType::kInt32, {1, 1}, 4);
  ExpectRefusal(Refusal(plan, {}),
                "expected 2 inputs but got 0 inputs for model 'm'. Got input(s) [], but missing "
                "required input(s) ['A','B']. Please provide all required input(s).");
  ExpectRefusal(Refusal(plan, {a}),
                "expected 2 inputs but got 1 inputs for model 'm'. Got input(s) ['A'], but missing "
                "required input(s) ['B'].");
  ExpectRefusal(Refusal(plan, {a, b, In("C", DataType::kFp32, {1, 1}, 4)}),
                "expected 2 inputs but got 3 inputs for model 'm'");
  ExpectRefusal(Refusal(plan, {a, In("X", DataType::kInt32, {1, 1}, 4)}),
                "unexpected inference input 'X' for model 'm'");
  ExpectRefusal(Refusal(plan, {a, a}), "input 'A' already exists in request");
  ExpectRefusal(Refusal(plan, {a, b, b}), "input 'B' already exists in request");
  ExpectRefusal(Refusal(plan, {a, b}, {"OUT", "Y"}), "unexpected inference output 'Y' for model 'm'");
  ExpectRefusal(Refusal(plan, {a, In(std::string_view("n\n\"x"), DataType::kInt32, {1, 1}, 4)}),
                "'n\\x0a\\\"x'");
}

TEST(RequestCheckTest, TypesShapesAndBatches) {
  const IoPlan plan = PlanOf(Batched());
  const auto with = [&](InferInput a, InferInput b) { return Refusal(plan, {std::move(a), std::move(b)}); };
  const InferInput b = In("B", DataType::kInt32, {1, 1}, 4);
  ExpectRefusal(with(In("A", DataType::kFp64, {1, 2, 1}, 16), b),
                "inference input 'A' data-type is 'FP64', but model 'm' expects 'FP32'");
  ExpectRefusal(with(In("A", DataType::kFp32, {}, 4), b),
                "input 'A' has no shape but model requires batch dimension for 'm'");
  ExpectRefusal(
      with(In("A", DataType::kFp32, {1, 3, 1}, 12), b),
      "unexpected shape for input 'A' for model 'm'. Expected [-1,2,-1], got [1,3,1]. NOTE: Setting a "
      "non-zero "
      "max_batch_size in the model config requires a batch dimension to be prepended to each input shape.");
  ExpectRefusal(with(In("A", DataType::kFp32, {1, 2}, 8), b), "Expected [-1,2,-1], got [1,2]");
  ExpectRefusal(with(In("A", DataType::kFp32, {2, 2, 1}, 16), b),
                "batch size does not match other inputs for 'm'");
  ExpectRefusal(with(In("A", DataType::kFp32, {5, 2, 1}, 40), In("B", DataType::kInt32, {5, 1}, 20)),
                "inference request batch-size must be <= 4 for 'm'");
  ExpectRefusal(with(In("A", DataType::kFp32, {0, 2, 1}, 0), In("B", DataType::kInt32, {0, 1}, 0)),
                "batch-size must be >= 1");
  ExpectRefusal(with(In("A", DataType::kFp32, {-1, 2, 1}, 0), In("B", DataType::kInt32, {-1, 1}, 0)),
                "batch-size must be >= 1");
  ExpectRefusal(Refusal(PlanOf(Single({-1, 3})), {In("A", DataType::kFp32, {3}, 12)}),
                "unexpected shape for input 'A' for model 'm'. Expected [-1,3], got [3]. ");
}

TEST(RequestCheckTest, ByteSizes) {
  EXPECT_EQ(Refusal(PlanOf(Single({2, 2})), {In("A", DataType::kFp32, {2, 2}, 16)}), "");
  ExpectRefusal(Refusal(PlanOf(Single({2, 2})), {In("A", DataType::kFp32, {2, 2}, 12)}),
                "input byte size mismatch for input 'A' for model 'm'. Expected 16, got 12");
  ExpectRefusal(Refusal(PlanOf(Single({-1})), {In("A", DataType::kFp32, {3}, 16)}),
                "input byte size mismatch for input 'A' for model 'm'. Expected 12, got 16");
  EXPECT_EQ(Refusal(PlanOf(Single({-1})), {In("A", DataType::kFp32, {0}, 0)}), "");
  const int64_t huge = int64_t{1} << 62;
  EXPECT_NE(Refusal(PlanOf(Single({-1, -1})), {In("A", DataType::kFp32, {huge, huge}, 0)}), "");
  EXPECT_NE(
      Refusal(PlanOf(Single({-1, -1})), {In("A", DataType::kFp32, {int64_t{1} << 32, int64_t{1} << 32}, 0)}),
      "");
  EXPECT_NE(Refusal(PlanOf(Single({-1})), {In("A", DataType::kFp32, {-5}, 0)}), "");
}

TEST(RequestCheckTest, StringElements) {
  const IoPlan plan = PlanOf(Single({-1}, DataType::kBytes));
  std::string data;
  tensor::AppendBytesElement(&data, "one");
  tensor::AppendBytesElement(&data, "");
  const auto refuse = [&](std::string bytes, int64_t count) {
    return Refusal(plan, {{"A", {DataType::kBytes, {count}, base::Bytes::Own(std::move(bytes))}}});
  };
  EXPECT_EQ(refuse(data, 2), "");
  ExpectRefusal(refuse(data, 3),
                "unexpected number of string elements 2 for inference input 'A' for model 'm', expecting 3");
  ExpectRefusal(refuse(data, 1), "unexpected number of string elements 2 or more for inference input 'A'");
  ExpectRefusal(refuse(data.substr(0, 9), 2), "incomplete string length indicator for inference input 'A'");
  ExpectRefusal(refuse(data.substr(0, 6), 2),
                "incomplete string data for inference input 'A' for model 'm', expecting "
                "string of length 3 but only 2 bytes available");
  ExpectRefusal(refuse(std::string("\xff\xff\xff\xff", 4), 1),
                "expecting string of length 4294967295 but only 0 bytes");
}

TEST(RequestCheckTest, OptionalInputs) {
  ModelConfig config = Batched();
  config.inputs[0].optional = true;
  const IoPlan plan = PlanOf(config);
  InferRequest request;
  request.inputs = {In("B", DataType::kInt32, {2, 1}, 8)};
  CheckedRequest checked;
  ASSERT_TRUE(CheckRequest(plan, &request, &checked).ok());
  ASSERT_EQ(request.inputs.size(), 2u);
  EXPECT_EQ(request.inputs[0].tensor.type, DataType::kInvalid);
  EXPECT_EQ(checked.rows, 2);
  ExpectRefusal(Refusal(plan, {}),
                "expected number of inputs between 1 and 2 but got 0 inputs for model 'm'");
  ExpectRefusal(Refusal(plan, {In("A", DataType::kFp32, {1, 2, 1}, 8)}), "missing required input(s) ['B']");
}

TEST(RequestCheckTest, SignaturesSeparateWhatMustNotShareABatch) {
  ModelConfig config = Batched();
  config.inputs.push_back(Io("R", DataType::kFp32, {-1}));
  config.inputs[2].allow_ragged_batch = true;
  config.inputs[2].optional = true;
  const IoPlan plan = PlanOf(config);
  const auto signature = [&](int64_t width, int64_t ragged, bool second_output) {
    InferRequest request;
    request.inputs = {In("A", DataType::kFp32, {1, 2, width}, static_cast<size_t>(width) * 8),
                      In("B", DataType::kInt32, {1, 1}, 4)};
    if (ragged > 0)
      request.inputs.push_back(In("R", DataType::kFp32, {1, ragged}, static_cast<size_t>(ragged) * 4));
    request.requested_outputs = {second_output ? "OTHER" : "OUT"};
    CheckedRequest checked;
    EXPECT_TRUE(CheckRequest(plan, &request, &checked).ok());
    std::string out;
    AppendShapeSignature(plan, request, checked.wanted, &out);
    return out;
  };
  EXPECT_EQ(signature(3, 1, false), signature(3, 7, false));
  EXPECT_NE(signature(3, 1, false), signature(4, 1, false));
  EXPECT_NE(signature(3, 1, false), signature(3, 0, false));
  EXPECT_NE(signature(3, 1, false), signature(3, 1, true));
}

TEST(RequestCheckTest, ManyOutputs) {
  OutputMask mask = OutputMask::All(70);
  EXPECT_TRUE(mask.Has(0) && mask.Has(63) && mask.Has(64) && mask.Has(69));
  EXPECT_FALSE(mask.Has(70));
  OutputMask one;
  one.Add(66);
  OutputMask two;
  two.Add(3);
  two.AddAll(one);
  EXPECT_TRUE(two.Has(3) && two.Has(66));
  EXPECT_FALSE(two.Has(65));
}

TEST(RequestCheckTest, ShapesAreMappedThroughReshape) {
  EXPECT_EQ(MapShape({5, 7}, {-1, -1}, {-1, 1, -1}), (Shape{5, 1, 7}));
  EXPECT_EQ(MapShape({4, 9}, {4, -1}, {-1, 2, 2}), (Shape{9, 2, 2}));
  EXPECT_EQ(MapShape({1}, {1}, {}), Shape{});
}

}  // namespace
}  // namespace stoker::host
