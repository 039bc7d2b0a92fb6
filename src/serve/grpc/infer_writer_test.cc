// Aim: answers are the protocol's bytes, in one piece when small and without copying tensors when large.
// Method: golden bytes, and protobuf reads what was written.
#include "grpc/infer_writer.h"

#include <string>

#include <gtest/gtest.h>
#include <infer_testing.pb.h>

#include "testing/table_model.h"

namespace stoker::serve {
namespace {

using std::string_literals::operator""s;
using stoker::testing::ModelInferResponse;
using stoker::testing::ModelStreamInferResponse;
using tensor::DataType;
using testing::TableModel;

std::string Join(const std::vector<base::Bytes>& parts) {
  std::string all;
  for (const auto& part : parts) all += part.text();
  return all;
}

host::InferResponse Response(std::vector<std::string> raws) {
  host::InferResponse response;
  for (auto& raw : raws) {
    const auto size = static_cast<int64_t>(raw.size());
    response.outputs.push_back(
        {response.outputs.size(), {DataType::kInt8, {1, size}, base::Bytes::Own(std::move(raw))}});
  }
  return response;
}

GrpcAnswerContext Context(std::string id = "") {
  GrpcAnswerContext context;
  context.model = TableModel(4)
                      .Input("IN", DataType::kInt8, {-1})
                      .Output("OUT", DataType::kInt8, {-1}, {"zero", "one"})
                      .Output("B", DataType::kInt8, {-1})
                      .Ref();
  context.id = std::move(id);
  context.classes_elements_max = 1000;
  return context;
}

TEST(InferWriterTest, GoldenBytes) {
  const auto parts = WriteInferResponse(Context("x"), Response({"ab"}));
  ASSERT_TRUE(parts.ok());
  ASSERT_EQ(parts->size(), 1u);
  EXPECT_EQ(Join(*parts),
            "\x0a\x05table\x12\x01"
            "1\x1a\x01x"
            "\x2a\x0f\x0a\x03OUT\x12\x04INT8\x1a\x02\x01\x02"
            "\x32\x02"
            "ab"s);
}

TEST(InferWriterTest, LargeTensorsAreNotCopied) {
  auto response = Response({std::string(100'000, 'a'), std::string(10, 'b')});
  const std::byte* data = response.outputs[0].tensor.bytes.data();
  const auto parts = WriteInferResponse(Context(), std::move(response));
  ASSERT_TRUE(parts.ok());
  ASSERT_EQ(parts->size(), 3u);
  EXPECT_EQ((*parts)[1].data(), data);
  ModelInferResponse read;
  ASSERT_TRUE(read.ParseFromString(Join(*parts)));
  EXPECT_EQ(read.raw_output_contents(0), std::string(100'000, 'a'));
  EXPECT_EQ(read.raw_output_contents(1), std::string(10, 'b'));
  EXPECT_EQ(read.outputs(1).name(), "B");
  EXPECT_EQ(read.outputs(0).shape(1), 100'000);
}

TEST(InferWriterTest, ParametersOfEachKind) {
  auto response = Response({"a"});
  response.parameters = {{"b", true}, {"i", int64_t{-5}}, {"u", UINT64_MAX}, {"d", 1.5}, {"s", "text\xff"s}};
  const auto parts = WriteInferResponse(Context(), std::move(response));
  ASSERT_TRUE(parts.ok());
  ModelInferResponse read;
  ASSERT_TRUE(read.ParseFromString(Join(*parts)));
  EXPECT_TRUE(read.parameters().at("b").bool_param());
  EXPECT_EQ(read.parameters().at("i").int64_param(), -5);
  EXPECT_EQ(read.parameters().at("u").uint64_param(), UINT64_MAX);
  EXPECT_EQ(read.parameters().at("d").double_param(), 1.5);
  EXPECT_EQ(read.parameters().at("s").string_param(), "text\xef\xbf\xbd");
}

TEST(InferWriterTest, StreamMessagesSayWhetherTheyAreTheLast) {
  GrpcAnswerContext context = Context("7");
  context.stream = true;
  for (const bool final : {true, false}) {
    auto response = Response({"abc"});
    response.final = final;
    const auto parts = WriteInferResponse(context, std::move(response));
    ASSERT_TRUE(parts.ok());
    ModelStreamInferResponse read;
    ASSERT_TRUE(read.ParseFromString(Join(*parts)));
    EXPECT_EQ(read.error_message(), "");
    EXPECT_EQ(read.infer_response().id(), "7");
    EXPECT_EQ(read.infer_response().model_version(), "1");
    const auto& parameter = read.infer_response().parameters().at("triton_final_response");
    EXPECT_EQ(parameter.parameter_choice_case(), stoker::testing::InferParameter::kBoolParam);
    EXPECT_EQ(parameter.bool_param(), final);
  }
}

TEST(InferWriterTest, EmptyFinalMessageHasNoVersion) {
  GrpcAnswerContext context = Context("7");
  context.stream = true;
  host::InferResponse response;
  response.empty = true;
  ModelStreamInferResponse read;
  ASSERT_TRUE(read.ParseFromString(Join(*WriteInferResponse(context, std::move(response)))));
  EXPECT_EQ(read.infer_response().model_name(), "table");
  EXPECT_EQ(read.infer_response().model_version(), "");
  EXPECT_EQ(read.infer_response().outputs_size(), 0);
  EXPECT_TRUE(read.infer_response().parameters().at("triton_final_response").bool_param());
}

TEST(InferWriterTest, StreamErrors) {
  ModelStreamInferResponse read;
  ASSERT_TRUE(read.ParseFromString(Join(WriteStreamError("id 1", "went wrong \xff"))));
  EXPECT_EQ(read.error_message(), "went wrong \xef\xbf\xbd");
  EXPECT_EQ(read.infer_response().id(), "id 1");
  ASSERT_TRUE(read.ParseFromString(Join(WriteStreamError("", "x"))));
  EXPECT_TRUE(read.has_infer_response());
}

TEST(InferWriterTest, Classification) {
  GrpcAnswerContext context = Context();
  context.classifications.push_back({0, 2});
  const auto parts = WriteInferResponse(context, Response({"\x01\x09\x05"s}));
  ASSERT_TRUE(parts.ok());
  ModelInferResponse read;
  ASSERT_TRUE(read.ParseFromString(Join(*parts)));
  EXPECT_EQ(read.outputs(0).datatype(), "BYTES");
  EXPECT_EQ(read.raw_output_contents(0),
            "\x07\0\0\0"
            "9:1:one\x03\0\0\0"
            "5:2"s);
  context.classes_elements_max = 2;
  EXPECT_FALSE(WriteInferResponse(context, Response({"\x01\x09\x05"s})).ok());
}

}  // namespace
}  // namespace stoker::serve
