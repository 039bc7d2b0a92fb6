// Aim: our reading of ModelInferRequest and writing of ModelInferResponse is protobuf's own. Method:
// random messages made by protobuf are read by us and compared field by field, and the other way round;
// bytes of messages are then changed at random: what we take, protobuf takes too.
#include <algorithm>
#include <cstring>
#include <map>
#include <string>

#include <gtest/gtest.h>
#include <infer_testing.pb.h>

#include <stoker/base/rng.h>
#include <stoker/base/testing/random_seed.h>

#include "grpc/infer_reader.h"
#include "grpc/infer_writer.h"
#include "testing/table_model.h"

namespace stoker::serve {
namespace {

using base::Rng;
using stoker::testing::InferTensorContents;
using stoker::testing::ModelInferRequest;
using tensor::DataType;
using testing::TableModel;

constexpr int kInputs = 14;

host::ModelRef Model() {
  TableModel model(0);
  for (int i = 1; i <= kInputs; ++i) {
    model.Input("IN" + std::to_string(i), static_cast<DataType>(i), {-1});
    model.Output("OUT" + std::to_string(i), static_cast<DataType>(i), {-1});
  }
  return model.Ref();
}

std::string Text(Rng* rng, size_t size_max) {
  static constexpr const char* kPieces[] = {"a", "Z", "7", " ", "ł", "語", "😀", "_"};
  std::string text;
  for (size_t i = rng->Below(size_max + 1); i > 0; --i) text += kPieces[rng->Below(std::size(kPieces))];
  return text;
}

std::string RandomBytes(Rng* rng, size_t size_max) {
  std::string bytes(rng->Below(size_max + 1), '\0');
  for (char& c : bytes) c = static_cast<char>(rng->Below(256));
  return bytes;
}

template <typename T>
void AppendTo(std::string* out, T value) {
  out->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

/// Random values in the field of `type`; `wanted` becomes the tensor's bytes. False for types without one.
template <typename Contents>
bool FillContents(Rng* rng, DataType type, Contents* contents, std::string* wanted) {
  const size_t count = rng->Below(9);
  for (size_t i = 0; i < count; ++i) {
    const uint64_t bits = rng->Next64() >> rng->Below(64);
    switch (type) {
      case DataType::kBool:
        contents->add_bool_contents((bits & 1) != 0);
        AppendTo(wanted, static_cast<uint8_t>(bits & 1));
        break;
      case DataType::kInt8:
        contents->add_int_contents(static_cast<int8_t>(bits));
        AppendTo(wanted, static_cast<int8_t>(bits));
        break;
      case DataType::kInt16:
        contents->add_int_contents(static_cast<int16_t>(bits));
        AppendTo(wanted, static_cast<int16_t>(bits));
        break;
      case DataType::kInt32:
        contents->add_int_contents(static_cast<int32_t>(bits));
        AppendTo(wanted, static_cast<int32_t>(bits));
        break;
      case DataType::kInt64:
        contents->add_int64_contents(static_cast<int64_t>(bits));
        AppendTo(wanted, bits);
        break;
      case DataType::kUint8:
        contents->add_uint_contents(static_cast<uint8_t>(bits));
        AppendTo(wanted, static_cast<uint8_t>(bits));
        break;
      case DataType::kUint16:
        contents->add_uint_contents(static_cast<uint16_t>(bits));
        AppendTo(wanted, static_cast<uint16_t>(bits));
        break;
      case DataType::kUint32:
        contents->add_uint_contents(static_cast<uint32_t>(bits));
        AppendTo(wanted, static_cast<uint32_t>(bits));
        break;
      case DataType::kUint64:
        contents->add_uint64_contents(bits);
        AppendTo(wanted, bits);
        break;
      case DataType::kFp32: {
        const auto value = static_cast<float>(rng->Uniform());
        contents->add_fp32_contents(value);
        AppendTo(wanted, value);
        break;
      }
      case DataType::kFp64: {
        const double value = rng->Uniform();
        contents->add_fp64_contents(value);
        AppendTo(wanted, value);
        break;
      }
      case DataType::kBytes: {
        const std::string element = RandomBytes(rng, 5);
        contents->add_bytes_contents(element);
        AppendTo(wanted, static_cast<uint32_t>(element.size()));
        *wanted += element;
        break;
      }
      default:
        return false;
    }
  }
  return true;
}

void FillParameters(Rng* rng, google::protobuf::Map<std::string, stoker::testing::InferParameter>* out) {
  for (size_t i = rng->Below(4); i > 0; --i) {
    auto& parameter = (*out)["p_" + Text(rng, 4)];
    switch (rng->Below(5)) {
      case 0:
        parameter.set_bool_param(rng->Below(2) == 1);
        break;
      case 1:
        parameter.set_int64_param(static_cast<int64_t>(rng->Next64()));
        break;
      case 2:
        parameter.set_string_param(Text(rng, 10));
        break;
      case 3:
        parameter.set_double_param(rng->Uniform());
        break;
      default:
        parameter.set_uint64_param(rng->Next64());
    }
  }
}

host::ParameterValue ValueOf(const stoker::testing::InferParameter& parameter) {
  using stoker::testing::InferParameter;
  switch (parameter.parameter_choice_case()) {
    case InferParameter::kBoolParam:
      return parameter.bool_param();
    case InferParameter::kInt64Param:
      return int64_t{parameter.int64_param()};
    case InferParameter::kStringParam:
      return parameter.string_param();
    case InferParameter::kDoubleParam:
      return parameter.double_param();
    default:
      return uint64_t{parameter.uint64_param()};
  }
}

struct Made {
  ModelInferRequest request;
  std::vector<std::string> data;  // of each input
  std::string bytes;
};

/// A valid request, raw or typed; typed numbers in their packed or unpacked form.
Made MakeRequest(Rng* rng) {
  Made made;
  made.request.set_model_name(Text(rng, 8));
  made.request.set_model_version(rng->Below(2) == 0 ? "" : "1");
  made.request.set_id(Text(rng, 30));
  FillParameters(rng, made.request.mutable_parameters());
  const bool raw = rng->Below(2) == 0;
  std::string unpacked;
  for (size_t i = rng->Below(5); i > 0; --i) {
    const int type = static_cast<int>(1 + rng->Below(kInputs));
    auto* input = made.request.add_inputs();
    input->set_name("IN" + std::to_string(type));
    input->set_datatype(std::string(tensor::ProtocolName(static_cast<DataType>(type))));
    for (size_t d = rng->Below(10); d > 0; --d)
      input->add_shape(static_cast<int64_t>(rng->Next64() >> rng->Below(64)));
    FillParameters(rng, input->mutable_parameters());
    std::string wanted;
    if (raw) {
      wanted = RandomBytes(rng, 40);
      made.request.add_raw_input_contents(wanted);
    } else {
      stoker::testing::UnpackedContents contents;
      const uint64_t seed = rng->Next64();
      Rng first(seed), second(seed);
      std::string again;
      input->mutable_contents();
      FillContents(&first, static_cast<DataType>(type), &contents, &wanted);
      if (rng->Below(2) == 0) {
        FillContents(&second, static_cast<DataType>(type), input->mutable_contents(), &again);
      } else {
        // Protobuf itself reads either form: parse and write would pack again, so unknown fields carry it.
        input->GetReflection()->MutableUnknownFields(input)->AddLengthDelimited(5,
                                                                                contents.SerializeAsString());
      }
    }
    made.data.push_back(std::move(wanted));
  }
  for (size_t i = rng->Below(4); i > 0; --i) {
    auto* output = made.request.add_outputs();
    output->set_name("OUT" + std::to_string(1 + rng->Below(kInputs)));
    FillParameters(rng, output->mutable_parameters());
  }
  made.bytes = made.request.SerializeAsString();
  return made;
}

base::Result<GrpcInferCall> Read(const host::ModelRef& model, std::string bytes) {
  const base::Bytes message = base::Bytes::Own(std::move(bytes));
  STOKER_ASSIGN_OR_RETURN(const InferEnvelope envelope, ReadEnvelope(message));
  return ReadInfer(envelope, model, message, {});
}

TEST(InferDifferentialTest, ReadsWhatProtobufWrites) {
  Rng rng(base::testing::RandomSeed());
  const auto model = Model();
  for (int round = 0; round < 5000; ++round) {
    const Made made = MakeRequest(&rng);
    ModelInferRequest reference;
    ASSERT_TRUE(reference.ParseFromString(made.bytes));
    const auto call = Read(model, made.bytes);
    ASSERT_TRUE(call.ok()) << call.status().message() << "\n" << made.request.ShortDebugString();
    const auto& request = *call->request;
    EXPECT_EQ(request.id, reference.id());
    ASSERT_EQ(request.inputs.size(), static_cast<size_t>(reference.inputs_size()));
    for (size_t i = 0; i < request.inputs.size(); ++i) {
      const auto& wanted = reference.inputs(static_cast<int>(i));
      EXPECT_EQ(request.inputs[i].name, wanted.name());
      EXPECT_EQ(tensor::ProtocolName(request.inputs[i].tensor.type), wanted.datatype());
      const auto dims = request.inputs[i].tensor.shape.dims();
      EXPECT_TRUE(std::equal(dims.begin(), dims.end(), wanted.shape().begin(), wanted.shape().end()));
      EXPECT_EQ(request.inputs[i].tensor.bytes.text(), made.data[i]) << wanted.ShortDebugString();
    }
    ASSERT_EQ(request.requested_outputs.size(), static_cast<size_t>(reference.outputs_size()));
    for (size_t i = 0; i < request.requested_outputs.size(); ++i)
      EXPECT_EQ(request.requested_outputs[i], reference.outputs(static_cast<int>(i)).name());
    ASSERT_EQ(request.parameters.size(), reference.parameters().size());
    for (const auto& parameter : request.parameters)
      EXPECT_EQ(parameter.value, ValueOf(reference.parameters().at(parameter.name)));
  }
}

TEST(InferDifferentialTest, TakesNothingThatProtobufRefuses) {
  Rng rng(base::testing::RandomSeed());
  const auto model = Model();
  int taken = 0;
  int refused = 0;
  const google::protobuf::LogSilencer silence;
  for (int round = 0; round < 30000; ++round) {
    std::string bytes = MakeRequest(&rng).bytes;
    if (bytes.empty()) continue;
    for (size_t i = rng.Below(4); i > 0; --i)
      bytes[rng.Below(bytes.size())] = static_cast<char>(rng.Below(256));
    if (rng.Below(4) == 0) bytes.resize(rng.Below(bytes.size() + 1));
    if (rng.Below(4) == 0) bytes.insert(rng.Below(bytes.size() + 1), RandomBytes(&rng, 6));
    const auto call = Read(model, bytes);
    ModelInferRequest reference;
    const bool parsed = reference.ParseFromString(bytes);
    call.ok() ? ++taken : ++refused;
    if (call.ok()) {
      // Contents of an unknown datatype belong to an input that the model does not have: nobody reads them,
      // since the host refuses the request.
      const auto& inputs = call->request->inputs;
      const bool refused_later = std::any_of(inputs.begin(), inputs.end(), [](const auto& input) {
        return input.tensor.type == tensor::DataType::kInvalid;
      });
      if (refused_later) continue;
      ASSERT_TRUE(parsed) << "round " << round;
      ASSERT_EQ(call->request->inputs.size(), static_cast<size_t>(reference.inputs_size()));
    }
  }
  EXPECT_GT(taken, 1000);
  EXPECT_GT(refused, 1000);
}

TEST(InferDifferentialTest, ProtobufReadsWhatIsWritten) {
  Rng rng(base::testing::RandomSeed());
  GrpcAnswerContext context;
  context.model = Model();
  for (int round = 0; round < 3000; ++round) {
    context.id = Text(&rng, 20);
    context.stream = rng.Below(2) == 1;
    host::InferResponse response;
    response.final = rng.Below(2) == 1;
    std::map<std::string, host::ParameterValue> parameters;
    if (rng.Below(2) == 1) parameters["a"] = static_cast<int64_t>(rng.Next64());
    if (rng.Below(2) == 1) parameters["b"] = Text(&rng, 300);
    if (rng.Below(2) == 1) parameters["c"] = rng.Uniform();
    for (const auto& [name, value] : parameters) response.parameters.push_back({name, value});
    std::vector<std::string> data;
    for (size_t i = rng.Below(6); i > 0; --i) {
      host::InferOutput output;
      output.index = rng.Below(kInputs);
      output.tensor.type = static_cast<DataType>(1 + output.index);
      for (size_t d = rng.Below(12); d > 0; --d)
        output.tensor.shape.Append(static_cast<int64_t>(rng.Next64() >> rng.Below(64)));
      data.push_back(RandomBytes(&rng, size_t{1} << rng.Below(16)));
      output.tensor.bytes = base::Bytes::Own(data.back());
      response.outputs.push_back(std::move(output));
    }
    const auto outputs = response.outputs;
    const bool final = response.final;
    const auto parts = WriteInferResponse(context, std::move(response));
    ASSERT_TRUE(parts.ok());
    std::string bytes;
    for (const auto& part : *parts) bytes += part.text();
    stoker::testing::ModelStreamInferResponse stream;
    stoker::testing::ModelInferResponse plain;
    ASSERT_TRUE(context.stream ? stream.ParseFromString(bytes) : plain.ParseFromString(bytes));
    const auto& read = context.stream ? stream.infer_response() : plain;
    EXPECT_EQ(bytes.size(), context.stream ? stream.ByteSizeLong() : plain.ByteSizeLong());
    EXPECT_EQ(read.id(), context.id);
    ASSERT_EQ(read.outputs_size(), static_cast<int>(outputs.size()));
    ASSERT_EQ(read.raw_output_contents_size(), static_cast<int>(outputs.size()));
    for (size_t i = 0; i < outputs.size(); ++i) {
      const auto& output = read.outputs(static_cast<int>(i));
      EXPECT_EQ(output.name(), context.model->outputs()[outputs[i].index].name);
      EXPECT_EQ(output.datatype(), tensor::ProtocolName(outputs[i].tensor.type));
      const auto dims = outputs[i].tensor.shape.dims();
      EXPECT_TRUE(std::equal(dims.begin(), dims.end(), output.shape().begin(), output.shape().end()));
      EXPECT_EQ(read.raw_output_contents(static_cast<int>(i)), data[i]);
    }
    for (const auto& [name, value] : parameters) EXPECT_EQ(ValueOf(read.parameters().at(name)), value);
    EXPECT_EQ(read.parameters().size(), parameters.size() + (context.stream ? 1 : 0));
    if (context.stream) {
      EXPECT_EQ(read.parameters().at("triton_final_response").bool_param(), final);
    }
  }
}

}  // namespace
}  // namespace stoker::serve
