// Aim: answers are written as the protocol says: JSON, binary blocks, classification, compression.
// Method: golden texts by hand.
#include "http/infer_answer.h"

#include <gtest/gtest.h>

#include "testing/table_model.h"

namespace stoker::serve {
namespace {

using tensor::DataType;
using testing::TableModel;

template <typename T>
tensor::Tensor Make(DataType type, tensor::Shape shape, std::vector<T> values) {
  return {
      type, std::move(shape),
      base::Bytes::Own(std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)))};
}

std::string Body(const net::HttpResponse& answer) {
  std::string out;
  for (const auto& part : answer.body) out += part.text();
  return out;
}

class InferAnswerTest : public ::testing::Test {
 protected:
  InferAnswerTest() {
    context_.model = TableModel(4)
                         .Output("P", DataType::kFp32, {2}, {"cat", "dog"})
                         .Output("N", DataType::kInt8, {1})
                         .Ref();
    context_.classes_elements_max = 1000;
    response_.outputs.push_back({0, Make<float>(DataType::kFp32, {2, 2}, {0.5f, 1.0f, 3e-7f, 2.0f})});
    response_.outputs.push_back({1, Make<int8_t>(DataType::kInt8, {2, 1}, {-1, 7})});
  }
  HttpAnswerContext context_;
  host::InferResponse response_;
};

TEST_F(InferAnswerTest, WritesJson) {
  context_.id = "a\"b";
  response_.parameters.push_back({"k", int64_t{5}});
  const auto answer = WriteInferAnswer(context_, response_);
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->content_type, "application/json");
  EXPECT_EQ(Body(*answer),
            R"({"id":"a\"b","model_name":"table","model_version":"1","parameters":{"k":5},"outputs":[)"
            R"({"name":"P","datatype":"FP32","shape":[2,2],"data":[0.5,1.0,3e-07,2.0]},)"
            R"({"name":"N","datatype":"INT8","shape":[2,1],"data":[-1,7]}]})");
}

TEST_F(InferAnswerTest, PutsBinaryBlocksAfterTheJson) {
  context_.form.outputs.push_back({1, true, 0});
  context_.form.outputs.push_back({0, std::nullopt, 0});
  const auto answer = WriteInferAnswer(context_, response_);
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->content_type, "application/octet-stream");
  const std::string json =
      R"({"model_name":"table","model_version":"1","outputs":[{"name":"P","datatype":"FP32","shape":[2,2],"data":[0.5,1.0,3e-07,2.0]},)"
      R"({"name":"N","datatype":"INT8","shape":[2,1],"parameters":{"binary_data_size":2}}]})";
  EXPECT_EQ(Body(*answer), json + "\xff\x07");
  ASSERT_EQ(answer->headers.size(), 1u);
  EXPECT_EQ(answer->headers[0].second, std::to_string(json.size()));
}

TEST_F(InferAnswerTest, Classifies) {
  context_.form.outputs.push_back({0, std::nullopt, 5});
  response_.outputs.pop_back();
  const auto answer = WriteInferAnswer(context_, response_);
  ASSERT_TRUE(answer.ok());
  EXPECT_NE(
      Body(*answer).find(
          R"("datatype":"BYTES","shape":[2,2],"data":["1.000000:1:dog","0.500000:0:cat","2.000000:1:dog","0.000000:0:cat"])"),
      std::string::npos)
      << Body(*answer);
}

TEST_F(InferAnswerTest, RefusesWhatHasNoJsonForm) {
  response_.outputs.clear();
  response_.outputs.push_back({0, Make<uint16_t>(DataType::kFp16, {1}, {0})});
  EXPECT_EQ(WriteInferAnswer(context_, response_).status().code(), base::StatusCode::kInvalidArgument);
  response_.outputs[0].tensor = {DataType::kBytes, {1}, base::Bytes::Own(std::string("\1\0\0\0x", 5))};
  context_.form.outputs.push_back({0, std::nullopt, 1});
  EXPECT_EQ(WriteInferAnswer(context_, response_).status().code(), base::StatusCode::kInvalidArgument);
}

TEST_F(InferAnswerTest, PacksTheWholeBody) {
  context_.coding = net::ContentCoding::kGzip;
  context_.form.binary_default = true;
  const auto answer = WriteInferAnswer(context_, response_);
  ASSERT_TRUE(answer.ok());
  ASSERT_EQ(answer->body.size(), 1u);
  const auto plain = net::Decompress(net::ContentCoding::kGzip, answer->body[0].span(), 10000);
  ASSERT_TRUE(plain.ok());
  EXPECT_TRUE(plain->text().starts_with(R"({"model_name":"table")"));
  EXPECT_TRUE(plain->text().ends_with("\xff\x07"));
}

TEST(ErrorAnswerTest, KeepsErrorsJsonWhateverTheText) {
  const auto answer = ErrorAnswer(base::StatusCode::kNotFound, "a \"b\"\n\xff");
  EXPECT_EQ(answer.status, 404);
  EXPECT_EQ(Body(answer), "{\"error\":\"a \\\"b\\\"\\n\xef\xbf\xbd\"}");
}

}  // namespace
}  // namespace stoker::serve
