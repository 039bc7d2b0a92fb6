// Aim: ModelInferRequest is read as the protocol says, and what breaks its rules is refused with the
// texts that clients know. Method: messages made by protobuf or by hand, compared with tensors by hand.
#include "grpc/infer_reader.h"

#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <infer_testing.pb.h>

#include "testing/table_model.h"

namespace stoker::serve {
namespace {

using base::StatusCode;
using std::string_literals::operator""s;
using stoker::testing::ModelInferRequest;
using tensor::DataType;
using testing::TableModel;

base::Result<GrpcInferCall> ReadBytes(std::string bytes, const TableModel& model, DoorOptions options = {}) {
  const base::Bytes message = base::Bytes::Own(std::move(bytes));
  STOKER_ASSIGN_OR_RETURN(const InferEnvelope envelope, ReadEnvelope(message));
  return ReadInfer(envelope, model.Ref(), message, options);
}

base::Result<GrpcInferCall> Read(const ModelInferRequest& request, const TableModel& model,
                                 DoorOptions options = {}) {
  return ReadBytes(request.SerializeAsString(), model, options);
}

TableModel Vector(DataType type) { return TableModel(0).Input("IN", type, {-1}).Output("OUT", type, {-1}); }

template <typename T>
std::vector<T> Values(const tensor::Tensor& tensor) {
  std::vector<T> out(tensor.bytes.size() / sizeof(T));
  if (!out.empty()) std::memcpy(out.data(), tensor.bytes.data(), out.size() * sizeof(T));
  return out;
}

ModelInferRequest::InferInputTensor* AddInput(ModelInferRequest* request, std::string name,
                                              std::string datatype, std::vector<int64_t> shape) {
  auto* input = request->add_inputs();
  input->set_name(std::move(name));
  input->set_datatype(std::move(datatype));
  for (const int64_t dim : shape) input->add_shape(dim);
  return input;
}

ModelInferRequest RawRequest() {
  ModelInferRequest request;
  request.set_model_name("table");
  request.set_id("żółw 7");
  AddInput(&request, "IN", "INT32", {2});
  request.add_raw_input_contents("\x01\x00\x00\x00\xff\xff\xff\xff"s);
  return request;
}

void ExpectRefused(const base::Result<GrpcInferCall>& call, StatusCode code, std::string_view fragment) {
  ASSERT_FALSE(call.ok()) << "wanted: " << fragment;
  EXPECT_EQ(call.status().code(), code) << call.status().message();
  EXPECT_NE(call.status().message().find(fragment), std::string::npos)
      << "got: " << call.status().message() << "\nwanted: " << fragment;
}

TEST(InferReaderTest, RawContentsAreSlicesOfTheMessage) {
  const base::Bytes message = base::Bytes::Own(RawRequest().SerializeAsString());
  const auto envelope = ReadEnvelope(message);
  ASSERT_TRUE(envelope.ok());
  EXPECT_EQ(envelope->model_name, "table");
  EXPECT_EQ(envelope->id, "żółw 7");
  const auto call = ReadInfer(*envelope, Vector(DataType::kInt32).Ref(), message, {});
  ASSERT_TRUE(call.ok()) << call.status().message();
  const auto& input = call->request->inputs.at(0);
  EXPECT_EQ(input.name, "IN");
  EXPECT_EQ(input.tensor.shape, (tensor::Shape{2}));
  EXPECT_EQ(Values<int32_t>(input.tensor), (std::vector<int32_t>{1, -1}));
  EXPECT_GE(input.tensor.bytes.data(), message.data());
  EXPECT_LE(input.tensor.bytes.data() + 8, message.data() + message.size());
  EXPECT_EQ(call->request->owner, message.owner());
}

TEST(InferReaderTest, GoldenBytes) {
  const std::string bytes =
      "\x0a\x05table"s
      "\x12\x01"
      "1"
      "\x1a\x02"
      "id"
      "\x2a\x11\x0a\x02IN\x12\x05INT32\x1a\x04\x01\x02\x01\x01"s
      "\x32\x05\x0a\x03OUT"s
      "\x3a\x08\x01\x00\x00\x00\x02\x00\x00\x00"s;
  const auto call = ReadBytes(bytes, Vector(DataType::kInt32));
  ASSERT_TRUE(call.ok()) << call.status().message();
  EXPECT_EQ(call->request->id, "id");
  EXPECT_EQ(call->request->inputs.at(0).tensor.shape, (tensor::Shape{1, 2, 1, 1}));
  EXPECT_EQ(call->request->requested_outputs, (std::vector<std::string_view>{"OUT"}));
}

TEST(InferReaderTest, FieldsInAnyOrderAndUnknownOnes) {
  const std::string bytes =
      "\x3a\x04\x07\x00\x00\x00"s
      "\xa2\x06\x02xy"
      "\x98\x06\x05"s
      "\x2a\x12\x18\x01\x12\x05INT32\x32\x03xyz\x0a\x02IN"s
      "\x0a\x05table"s;
  const auto call = ReadBytes(bytes, Vector(DataType::kInt32));
  ASSERT_TRUE(call.ok()) << call.status().message();
  EXPECT_EQ(Values<int32_t>(call->request->inputs.at(0).tensor), (std::vector<int32_t>{7}));
  EXPECT_EQ(call->request->inputs.at(0).tensor.shape, (tensor::Shape{1}));
}

// Every message that is cut is refused or, where the cut falls between fields, still a message; none
// reads beyond its end (the sanitizers watch).
TEST(InferReaderTest, EveryTruncationIsSafe) {
  ModelInferRequest request = RawRequest();
  (*request.mutable_parameters())["k"].set_string_param("v");
  request.add_outputs()->set_name("OUT");
  const std::string whole = request.SerializeAsString();
  size_t refused = 0;
  for (size_t size = 0; size < whole.size(); ++size) {
    const std::string exact(whole.data(), size);  // its own allocation: an overrun is seen
    refused += ReadBytes(exact, Vector(DataType::kInt32)).ok() ? 0 : 1;
    ModelInferRequest reference;
    if (!reference.ParseFromString(exact)) {
      EXPECT_FALSE(ReadBytes(exact, Vector(DataType::kInt32)).ok()) << size;
    }
  }
  EXPECT_GT(refused, whole.size() / 2);
}

TEST(InferReaderTest, TypedContents) {
  ModelInferRequest request;
  auto* contents = AddInput(&request, "IN", "INT8", {3})->mutable_contents();
  for (const int value : {-128, 0, 127}) contents->add_int_contents(value);
  auto call = Read(request, Vector(DataType::kInt8));
  ASSERT_TRUE(call.ok()) << call.status().message();
  EXPECT_EQ(Values<int8_t>(call->request->inputs[0].tensor), (std::vector<int8_t>{-128, 0, 127}));

  ModelInferRequest strings;
  contents = AddInput(&strings, "IN", "BYTES", {2})->mutable_contents();
  contents->add_bytes_contents("\xff\x00"s);
  contents->add_bytes_contents("");
  call = Read(strings, Vector(DataType::kBytes));
  ASSERT_TRUE(call.ok()) << call.status().message();
  EXPECT_EQ(call->request->inputs[0].tensor.bytes.text(), "\x02\0\0\0\xff\x00\0\0\0\0"s);

  ModelInferRequest truths;
  contents = AddInput(&truths, "IN", "BOOL", {2})->mutable_contents();
  contents->add_bool_contents(true);
  contents->add_bool_contents(false);
  call = Read(truths, Vector(DataType::kBool));
  ASSERT_TRUE(call.ok()) << call.status().message();
  EXPECT_EQ(call->request->inputs[0].tensor.bytes.text(), "\x01\x00"s);
}

TEST(InferReaderTest, IntegersBeyondTheirTypeAreRefused) {
  struct Case {
    const char* type;
    DataType data_type;
    int64_t value;
    bool is_signed;
  };
  for (const Case& c :
       {Case{"INT8", DataType::kInt8, 128, true}, Case{"INT8", DataType::kInt8, -129, true},
        Case{"INT16", DataType::kInt16, 32768, true}, Case{"INT16", DataType::kInt16, -32769, true},
        Case{"UINT8", DataType::kUint8, 256, false}, Case{"UINT16", DataType::kUint16, 65536, false}}) {
    ModelInferRequest request;
    auto* contents = AddInput(&request, "IN", c.type, {1})->mutable_contents();
    if (c.is_signed) {
      contents->add_int_contents(static_cast<int32_t>(c.value));
    } else {
      contents->add_uint_contents(static_cast<uint32_t>(c.value));
    }
    ExpectRefused(Read(request, Vector(c.data_type)), StatusCode::kInvalidArgument, std::to_string(c.value));
  }
}

TEST(InferReaderTest, ContentsInTheWrongField) {
  ModelInferRequest request;
  auto* contents = AddInput(&request, "IN", "FP16", {1})->mutable_contents();
  contents->add_fp32_contents(1);
  ExpectRefused(
      Read(request, Vector(DataType::kFp16)), StatusCode::kInvalidArgument,
      "unexpected explicit tensor data for input tensor 'IN' for model 'table' of type 'FP32', expected "
      "datatype 'FP16'");
  request.mutable_inputs(0)->set_datatype("FP32");
  contents->add_bytes_contents("x");
  ExpectRefused(
      Read(request, Vector(DataType::kFp32)), StatusCode::kInvalidArgument,
      "unexpected explicit tensor data for input tensor 'IN' for model 'table', binary data was already "
      "supplied.");
}

TEST(InferReaderTest, ContentsInPiecesAreOneMessage) {
  // Two contents fields with one packed and one plain value.
  const std::string bytes = "\x2a\x16\x0a\x02IN\x12\x05INT32\x18\x02\x2a\x03\x12\x01\x07\x2a\x02\x10\x09"s;
  const auto call = ReadBytes(bytes, Vector(DataType::kInt32));
  ASSERT_TRUE(call.ok()) << call.status().message();
  EXPECT_EQ(Values<int32_t>(call->request->inputs[0].tensor), (std::vector<int32_t>{7, 9}));
}

TEST(InferReaderTest, EachInputNeedsItsData) {
  ModelInferRequest request = RawRequest();
  request.mutable_inputs(0)->mutable_contents()->add_int_contents(1);
  ExpectRefused(
      Read(request, Vector(DataType::kInt32)), StatusCode::kInvalidArgument,
      "contents field must not be specified when using raw_input_contents for 'IN' for model 'table'");
  request = RawRequest();
  AddInput(&request, "IN1", "INT32", {1});
  ExpectRefused(Read(request, Vector(DataType::kInt32)), StatusCode::kInvalidArgument,
                "unable to find data for input tensor 'IN1' for model 'table' in request.");
  request = RawRequest();
  request.clear_raw_input_contents();
  ExpectRefused(Read(request, Vector(DataType::kInt32)), StatusCode::kInvalidArgument,
                "unable to find data for input tensor 'IN' for model 'table' in request.");
  request = RawRequest();
  request.add_raw_input_contents("");
  ExpectRefused(Read(request, Vector(DataType::kInt32)), StatusCode::kInvalidArgument,
                "2 raw_input_contents");
}

TEST(InferReaderTest, UnknownDatatype) {
  ModelInferRequest request = RawRequest();
  request.mutable_inputs(0)->set_datatype("FP99");
  ExpectRefused(Read(request, Vector(DataType::kInt32)), StatusCode::kInvalidArgument,
                "[request id: żółw 7] inference input 'IN' data-type is '<invalid>', but model 'table' "
                "expects 'INT32'");
}

TEST(InferReaderTest, RequestParameters) {
  ModelInferRequest request = RawRequest();
  auto& parameters = *request.mutable_parameters();
  parameters["sequence_id"].set_int64_param(-3);
  parameters["sequence_start"].set_bool_param(true);
  parameters["priority"].set_uint64_param(2);
  parameters["timeout"].set_int64_param(99);
  parameters["binary_data_output"].set_bool_param(true);
  parameters["text"].set_string_param("x");
  parameters["number"].set_double_param(1.5);
  parameters["triton_enable_empty_final_response"].set_bool_param(true);
  const auto call = Read(request, Vector(DataType::kInt32));
  ASSERT_TRUE(call.ok()) << call.status().message();
  EXPECT_EQ(std::get<uint64_t>(call->request->correlation), UINT64_MAX - 2);
  EXPECT_TRUE(call->request->sequence_start);
  EXPECT_EQ(call->request->priority, 2u);
  EXPECT_EQ(call->request->timeout_us, 99u);
  EXPECT_TRUE(call->empty_final_response);
  ASSERT_EQ(call->request->parameters.size(), 3u);
  EXPECT_EQ(call->request->parameters[0].name, "binary_data_output");
  EXPECT_EQ(std::get<double>(call->request->parameters[1].value), 1.5);
  EXPECT_EQ(std::get<std::string>(call->request->parameters[2].value), "x");
}

TEST(InferReaderTest, LastOfTwoEntriesCounts) {
  const std::string first = "\x22\x0a\x0a\x01k\x12\x05\x1a\x03one"s;
  const std::string second = "\x22\x0a\x0a\x01k\x12\x05\x1a\x03two"s;
  const auto call = ReadBytes(first + second, Vector(DataType::kInt32));
  ASSERT_TRUE(call.ok()) << call.status().message();
  ASSERT_EQ(call->request->parameters.size(), 1u);
  EXPECT_EQ(std::get<std::string>(call->request->parameters[0].value), "two");
}

TEST(InferReaderTest, RefusedParameters) {
  const auto refused = [](const std::string& key, const stoker::testing::InferParameter& value) {
    ModelInferRequest request = RawRequest();
    (*request.mutable_parameters())[key] = value;
    return Read(request, Vector(DataType::kInt32));
  };
  stoker::testing::InferParameter value;
  ExpectRefused(refused("a", value), StatusCode::kInvalidArgument, "invalid value type for 'a' parameter");
  value.set_bool_param(true);
  ExpectRefused(refused("triton_x", value), StatusCode::kInvalidArgument, "reserved for Triton usage");
  ExpectRefused(refused("sequence_id", value), StatusCode::kInvalidArgument, "sequence_id");
  value.set_string_param("yes");
  ExpectRefused(
      refused("triton_enable_empty_final_response", value), StatusCode::kInvalidArgument,
      "invalid value type for 'triton_enable_empty_final_response' parameter, expected bool_param.");
  ExpectRefused(refused("priority", value), StatusCode::kInvalidArgument, "priority");
  value.set_string_param(std::string(129, 's'));
  ExpectRefused(refused("sequence_id", value), StatusCode::kUnimplemented, "128");
  value.set_int64_param(-1);
  ExpectRefused(refused("priority", value), StatusCode::kInvalidArgument, "priority");
}

TEST(InferReaderTest, OutputParameters) {
  ModelInferRequest request = RawRequest();
  auto* output = request.add_outputs();
  output->set_name("OUT");
  (*output->mutable_parameters())["classification"].set_int64_param(3);
  auto call = Read(request, Vector(DataType::kInt32));
  ASSERT_TRUE(call.ok()) << call.status().message();
  ASSERT_EQ(call->classifications.size(), 1u);
  EXPECT_EQ(call->classifications[0].classes, 3u);
  (*output->mutable_parameters())["classification"].set_int64_param(0);
  ExpectRefused(Read(request, Vector(DataType::kInt32)), StatusCode::kInvalidArgument, "classification");
  output->clear_parameters();
  (*output->mutable_parameters())["shared_memory_region"].set_string_param("r");
  ExpectRefused(Read(request, Vector(DataType::kInt32)), StatusCode::kUnimplemented, "not supported");
  request = RawRequest();
  (*request.mutable_inputs(0)->mutable_parameters())["shared_memory_region"].set_string_param("r");
  ExpectRefused(Read(request, Vector(DataType::kInt32)), StatusCode::kUnimplemented, "not supported");
}

TEST(InferReaderTest, TextThatIsNotUtf8) {
  EXPECT_FALSE(ReadEnvelope(base::Bytes::Static("\x0a\x01\xff")).ok());
  ExpectRefused(ReadBytes("\x2a\x04\x0a\x02I\xff"s, Vector(DataType::kInt32)), StatusCode::kInternal,
                "Unable to parse request");
  ExpectRefused(ReadBytes("\x22\x08\x0a\x01k\x12\x03\x1a\x01\xff"s, Vector(DataType::kInt32)),
                StatusCode::kInternal, "Unable to parse request");
}

TEST(InferReaderTest, Caps) {
  DoorOptions options;
  options.tensors_max = 2;
  options.parameters_max = 1;
  ModelInferRequest request;
  for (int i = 0; i < 3; ++i) request.add_inputs();
  ExpectRefused(Read(request, Vector(DataType::kInt32), options), StatusCode::kResourceExhausted, "3 inputs");
  request.clear_inputs();
  for (int i = 0; i < 3; ++i) request.add_outputs();
  ExpectRefused(Read(request, Vector(DataType::kInt32), options), StatusCode::kResourceExhausted,
                "3 outputs");
  request.clear_outputs();
  for (const char* key : {"a", "b"}) (*request.mutable_parameters())[key].set_bool_param(true);
  ExpectRefused(Read(request, Vector(DataType::kInt32), options), StatusCode::kResourceExhausted,
                "2 parameters");
  request = RawRequest();
  for (int i = 0; i < 64; ++i) request.mutable_inputs(0)->add_shape(1);
  ExpectRefused(Read(request, Vector(DataType::kInt32)), StatusCode::kInvalidArgument, "64 dimensions");
}

}  // namespace
}  // namespace stoker::serve
