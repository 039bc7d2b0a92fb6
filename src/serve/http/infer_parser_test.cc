// Aim: every form of an HTTP inference request is read as the protocol says, and broken ones are refused
// with the status that Triton's clients know. Method: requests as text, compared with tensors by hand.
#include "http/infer_parser.h"

#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

#include "testing/table_model.h"

namespace stoker::serve {
namespace {

using base::StatusCode;
using tensor::DataType;
using testing::TableModel;

base::Result<HttpInferCall> Parse(const TableModel& model, std::string json, const std::string& binary = "",
                                  DoorOptions options = {}) {
  const size_t json_bytes = json.size();
  return ParseInfer(model.Ref(), base::Bytes::Own(std::move(json) + binary), json_bytes, options);
}

template <typename T>
std::vector<T> Values(const tensor::Tensor& tensor) {
  std::vector<T> out(tensor.bytes.size() / sizeof(T));
  std::memcpy(out.data(), tensor.bytes.data(), out.size() * sizeof(T));
  return out;
}

TableModel Vector(DataType type) { return TableModel(8).Input("IN", type, {-1}).Output("OUT", type, {-1}); }

TEST(InferParserTest, ReadsNestedData) {
  const auto call = Parse(
      Vector(DataType::kFp32),
      R"({"id":"7","inputs":[{"name":"IN","shape":[2,2],"datatype":"FP32","data":[[1,2.5],[NaN,-1e3]]}]})");
  ASSERT_TRUE(call.ok()) << call.status().message();
  EXPECT_EQ(call->request->id, "7");
  ASSERT_EQ(call->request->inputs.size(), 1u);
  const auto& input = call->request->inputs[0];
  EXPECT_EQ(input.tensor.shape, (tensor::Shape{2, 2}));
  const auto values = Values<float>(input.tensor);
  EXPECT_EQ(values[1], 2.5f);
  EXPECT_TRUE(std::isnan(values[2]));
  EXPECT_EQ(values[3], -1000.0f);
}

TEST(InferParserTest, TakesMembersInAnyOrder) {
  const auto call = Parse(
      Vector(DataType::kInt64),
      R"({"outputs":[{"parameters":{"binary_data":true},"name":"OUT"}],"inputs":[{"data":[3,4],"datatype":"INT64","name":"IN","shape":[1,2]}]})");
  ASSERT_TRUE(call.ok()) << call.status().message();
  EXPECT_EQ(Values<int64_t>(call->request->inputs[0].tensor), (std::vector<int64_t>{3, 4}));
  ASSERT_EQ(call->form.outputs.size(), 1u);
  EXPECT_EQ(call->form.outputs[0].index, 0);
  EXPECT_TRUE(*call->form.outputs[0].binary);
}

TEST(InferParserTest, ReadsStringsAndTruths) {
  const auto texts =
      Parse(Vector(DataType::kBytes),
            R"({"inputs":[{"name":"IN","shape":[1,2],"datatype":"BYTES","data":["a\u0000b","ż"]}]})");
  ASSERT_TRUE(texts.ok()) << texts.status().message();
  EXPECT_EQ(texts->request->inputs[0].tensor.bytes.text(), std::string("\3\0\0\0a\0b\2\0\0\0ż", 13));
  const auto truths =
      Parse(Vector(DataType::kBool),
            R"({"inputs":[{"name":"IN","shape":[1,2],"datatype":"BOOL","data":[true,false]}]})");
  ASSERT_TRUE(truths.ok());
  EXPECT_EQ(Values<uint8_t>(truths->request->inputs[0].tensor), (std::vector<uint8_t>{1, 0}));
}

TEST(InferParserTest, CutsBinaryBlocksInOrder) {
  const auto model = TableModel(8)
                         .Input("A", DataType::kUint8, {-1})
                         .Input("B", DataType::kUint8, {-1})
                         .Output("OUT", DataType::kUint8, {-1});
  const std::string json =
      R"({"inputs":[{"name":"B","shape":[1,2],"datatype":"UINT8","parameters":{"binary_data_size":2}},)"
      R"({"name":"A","shape":[1,1],"datatype":"UINT8","parameters":{"binary_data_size":1}}],"parameters":{"binary_data_output":true}})";
  const auto call = Parse(model, json, "xyz");
  ASSERT_TRUE(call.ok()) << call.status().message();
  EXPECT_EQ(call->request->inputs[0].tensor.bytes.text(), "xy");
  EXPECT_EQ(call->request->inputs[1].tensor.bytes.text(), "z");
  EXPECT_TRUE(call->form.binary_default);
  EXPECT_EQ(Parse(model, json, "xy").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Parse(model, json, "xyzz").status().code(), StatusCode::kInvalidArgument);
}

TEST(InferParserTest, SortsParameters) {
  const auto call = Parse(
      Vector(DataType::kFp32),
      R"({"parameters":{"priority":2,"timeout":1000,"sequence_id":"s","sequence_start":true,"n":-3,"x":9223372036854775808,"s":"t","b":false},)"
      R"("inputs":[{"name":"IN","shape":[1,1],"datatype":"FP32","data":[1]}]})");
  ASSERT_TRUE(call.ok()) << call.status().message();
  EXPECT_EQ(call->request->priority, 2u);
  EXPECT_EQ(call->request->timeout_us, 1000u);
  EXPECT_EQ(std::get<std::string>(call->request->correlation), "s");
  EXPECT_TRUE(call->request->sequence_start);
  ASSERT_EQ(call->request->parameters.size(), 4u);
  EXPECT_EQ(std::get<int64_t>(call->request->parameters[0].value), -3);
  EXPECT_EQ(std::get<double>(call->request->parameters[1].value), 9223372036854775808.0);
}

struct Refusal {
  const char* json;
  StatusCode code;
};

TEST(InferParserTest, RefusesBrokenRequests) {
  const Refusal cases[] = {
      {"", StatusCode::kInternal},
      {"[]", StatusCode::kInternal},
      {"{}", StatusCode::kInternal},
      {R"({"inputs":null})", StatusCode::kInternal},
      {R"({"inputs":[1]})", StatusCode::kInvalidArgument},
      {R"({"inputs":[{"name":"IN","shape":[1],"datatype":"FP32"}]})", StatusCode::kInvalidArgument},
      {R"({"inputs":[{"name":"IN","shape":[-1],"datatype":"FP32","data":[1]}]})", StatusCode::kInternal},
      {R"({"inputs":[{"name":"IN","shape":[1],"datatype":"FP33","data":[1]}]})",
       StatusCode::kInvalidArgument},
      {R"({"inputs":[{"name":"IN","shape":[1],"datatype":"FP16","data":[1]}]})",
       StatusCode::kInvalidArgument},
      {R"({"inputs":[{"name":"IN","shape":[2],"datatype":"FP32","data":[1]}]})", StatusCode::kInternal},
      {R"({"inputs":[{"name":"IN","shape":[1],"datatype":"FP32","data":["1"]}]})", StatusCode::kInternal},
      {R"({"inputs":[{"name":"IN","shape":[1],"datatype":"INT8","data":[300]}]})",
       StatusCode::kInvalidArgument},
      {R"({"inputs":[{"name":"IN","shape":[4611686018427387904,4],"datatype":"FP32","data":[1]}]})",
       StatusCode::kInvalidArgument},
      {R"({"inputs":[{"name":"IN","shape":[4000000000],"datatype":"FP32","data":[1]}]})",
       StatusCode::kInternal},
      {R"({"inputs":[{"name":"IN","shape":[1],"datatype":"FP32","data":[1],"parameters":{"binary_data_size":4}}]})",
       StatusCode::kInvalidArgument},
      {R"({"inputs":[{"name":"IN","shape":[1],"datatype":"FP32","parameters":{"shared_memory_region":"r"}}]})",
       StatusCode::kUnimplemented},
      {R"({"parameters":{"triton_x":1},"inputs":[]})", StatusCode::kInvalidArgument},
      {R"({"parameters":{"x":null},"inputs":[]})", StatusCode::kInvalidArgument},
      {R"({"parameters":{"priority":-1},"inputs":[]})", StatusCode::kInternal},
      {R"({"inputs":[]} x)", StatusCode::kInternal},
  };
  for (const auto& refusal : cases) {
    EXPECT_EQ(Parse(Vector(DataType::kFp32), refusal.json).status().code(), refusal.code) << refusal.json;
  }
}

TEST(InferParserTest, EveryTruncationIsRefused) {
  const std::string json =
      R"({"id":"a","inputs":[{"name":"IN","shape":[1,2],"datatype":"FP32","data":[1.5,2]}],"outputs":[{"name":"OUT"}]})";
  for (size_t cut = 0; cut < json.size(); ++cut) {
    EXPECT_FALSE(Parse(Vector(DataType::kFp32), json.substr(0, cut)).ok()) << cut;
  }
}

TEST(InferParserTest, HoldsItsCaps) {
  std::string json = R"({"inputs":[)";
  for (int i = 0; i < 5; ++i)
    json += std::string(i ? "," : "") + R"({"name":"IN","shape":[1],"datatype":"FP32","data":[1]})";
  json += "]}";
  DoorOptions options;
  options.tensors_max = 4;
  EXPECT_EQ(Parse(Vector(DataType::kFp32), json, "", options).status().code(), StatusCode::kInvalidArgument);
  options.tensors_max = 5;
  EXPECT_TRUE(Parse(Vector(DataType::kFp32), json, "", options).ok());
  const std::string deep = R"({"inputs":[{"name":"IN","shape":[1],"datatype":"FP32","data":)" +
                           std::string(200, '[') + "1" + std::string(200, ']') + "}]}";
  EXPECT_FALSE(Parse(Vector(DataType::kFp32), deep).ok());
}

TEST(InferParserTest, DeducesTheRawShape) {
  const auto model =
      TableModel(8).Input("IN", DataType::kInt32, {-1, 3}).Output("OUT", DataType::kInt32, {-1, 3});
  const auto call = ParseRawInfer(model.Ref(), base::Bytes::Own(std::string(24, 'a')));
  ASSERT_TRUE(call.ok()) << call.status().message();
  EXPECT_EQ(call->request->inputs[0].tensor.shape, (tensor::Shape{1, 2, 3}));
  EXPECT_TRUE(call->form.binary_default);
  EXPECT_FALSE(ParseRawInfer(model.Ref(), base::Bytes::Own(std::string(20, 'a'))).ok());
  const auto text = TableModel(0).Input("IN", DataType::kBytes, {1}).Output("OUT", DataType::kBytes, {1});
  const auto raw = ParseRawInfer(text.Ref(), base::Bytes::Own("hello"));
  ASSERT_TRUE(raw.ok());
  EXPECT_EQ(raw->request->inputs[0].tensor.bytes.text(), std::string("\5\0\0\0hello", 9));
  EXPECT_FALSE(
      ParseRawInfer(TableModel(0).Input("A", DataType::kInt8, {1}).Input("B", DataType::kInt8, {1}).Ref(), {})
          .ok());
}

}  // namespace
}  // namespace stoker::serve
