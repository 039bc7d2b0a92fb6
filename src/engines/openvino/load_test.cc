// Loading through the OpenVINO engine: what does not fit is refused with file, tensor and reason, and
// what the configuration asks for is done.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include <stoker/engines/engines.h>
#include <stoker/engines/testing/conformance.h>
#include <stoker/engines/testing/onnx_writer.h>
#include <stoker/engines/testing/recording_sink.h>

namespace stoker::engines {
namespace {

using tensor::DataType;
using tensor::Tensor;
using testing::OnnxWriter;

class OpenvinoLoadTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "stoker-load-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    engines_ = MakeEngines();
    engine_ = FindEngine(engines_, "openvino", "");
    ASSERT_NE(engine_, nullptr);
    spec_.name = "net";
    spec_.backend = "openvino";
    spec_.parameters["stoker.precision"] = "fp32";
    spec_.version_path = folder_;
    spec_.cores = 2;
    spec_.instance_count = 1;
    spec_.max_batch_size = 4;
    spec_.parameters["stoker.batch_mode"] = "dynamic";
    spec_.inputs = {{.name = "x", .type = DataType::kFp32, .dims = {8}}};
    spec_.outputs = {{.name = "y", .type = DataType::kFp32, .dims = {8}}};
    Write("model.onnx", testing::MlpOnnx(-1, 8, 5));
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void Write(const std::string& name, const std::string& content) {
    std::ofstream(folder_ + "/" + name, std::ios::binary | std::ios::trunc) << content;
  }
  // The message of a refused load; "" when it loads.
  std::string Refusal() {
    const auto loaded = engine_->Load(spec_);
    return loaded.ok() ? "" : loaded.status().message();
  }
  void ExpectRefused(const std::vector<std::string>& fragments) {
    const std::string message = Refusal();
    for (const std::string& fragment : fragments)
      EXPECT_NE(message.find(fragment), std::string::npos) << fragment << " in: " << message;
  }
  base::Status Run(EngineModel* model, const std::vector<Tensor>& inputs, testing::RecordingSink* sink) {
    auto instance = model->NewInstance(0);
    if (!instance.ok()) return instance.status();
    const int64_t rows = spec_.max_batch_size > 0 ? inputs[0].shape[0] : 1;
    return (*instance)->Run({.rows = rows, .inputs = inputs, .request_rows = {&rows, 1}}, sink);
  }

  std::string folder_;
  std::vector<std::unique_ptr<Engine>> engines_;
  Engine* engine_ = nullptr;
  ModelSpec spec_;
};

TEST_F(OpenvinoLoadTest, UnknownTensorsAreNamedWithTheRightOnes) {
  spec_.inputs[0].name = "data";
  ExpectRefused({"model 'net' version 1", "'data'", "it has 'x'"});
  spec_.inputs[0].name = "x";
  spec_.outputs.push_back({.name = "z", .type = DataType::kFp32, .dims = {8}});
  ExpectRefused({"'z'", "it has 'y'"});
  spec_.outputs.pop_back();
  spec_.inputs.push_back(spec_.inputs[0]);
  ExpectRefused({"'x' is listed twice"});
  spec_.inputs.clear();
  ExpectRefused({"the configuration has 0 inputs, but the model 1: 'x'"});
}

TEST_F(OpenvinoLoadTest, WrongTypesAndShapesAreRefused) {
  spec_.inputs[0].type = DataType::kInt32;
  ExpectRefused({"'x' is configured as TYPE_INT32, but the model has TYPE_FP32"});
  spec_.inputs[0].type = DataType::kFp32;
  spec_.inputs[0].dims = {9};
  ExpectRefused({"'x' has the shape [?,8]", "[-1,9]", "RESHAPE_IO_LAYERS"});
  spec_.inputs[0].dims = {8};
  spec_.outputs[0].dims = {4, 2};
  ExpectRefused({"output 'y'", "[-1,4,2]"});
}

TEST_F(OpenvinoLoadTest, WhatIsNotSupportedIsNamed) {
  spec_.inputs[0].optional = true;
  ExpectRefused({"'x' is optional", "does not support"});
  spec_.inputs[0].optional = false;
  spec_.inputs[0].ragged = true;
  ExpectRefused({"'x' is allow_ragged_batch", "does not support"});
  spec_.inputs[0].ragged = false;
  OnnxWriter texts;
  texts.Input("x", DataType::kBytes, {-1, 8})
      .Output("y", DataType::kBytes, {-1, 8})
      .Node("Identity", {"x"}, {"y"});
  Write("model.onnx", texts.Serialize());
  spec_.inputs[0].type = spec_.outputs[0].type = DataType::kBytes;
  ExpectRefused({"'x'", "TYPE_STRING", "string"});
  EXPECT_NE(engine_->Describe(spec_).status().message().find("'x' has the element type string"),
            std::string::npos);
}

TEST_F(OpenvinoLoadTest, BatchesNeedACommonFirstDimension) {
  OnnxWriter writer;
  writer.Input("x", DataType::kFp32, {2, 8})
      .Input("z", DataType::kFp32, {3, 8})
      .Output("y", DataType::kFp32, {5, 8});
  writer.Node("Concat", {"x", "z"}, {"y"}, {{.name = "axis", .integers = {0}}});
  Write("model.onnx", writer.Serialize());
  spec_.inputs.push_back({.name = "z", .type = DataType::kFp32, .dims = {8}});
  ExpectRefused({"max_batch_size is 4", "no common first dimension", folder_});
  const auto description = engine_->Describe(spec_);
  ASSERT_TRUE(description.ok());
  EXPECT_FALSE(description->batchable);
}

TEST_F(OpenvinoLoadTest, FixedFileSaysItsBatch) {
  Write("model.onnx", testing::MlpOnnx(2, 8, 5));
  const auto description = engine_->Describe(spec_);
  ASSERT_TRUE(description.ok());
  EXPECT_TRUE(description->batchable);
  EXPECT_EQ(description->batch_hint, 2);
  EXPECT_EQ(description->inputs[0].dims, (tensor::Shape{2, 8}));
}

TEST_F(OpenvinoLoadTest, ExternalDataStaysInTheFolder) {
  const std::string secret = folder_ + "-secret";
  std::ofstream(secret, std::ios::binary) << std::string(32, 'k');
  OnnxWriter writer;
  writer.Input("x", DataType::kFp32, {-1, 8}).Output("y", DataType::kFp32, {-1, 8});
  writer.ExternalConstant("w", {8}, "../" + std::filesystem::path(secret).filename().string())
      .Node("Add", {"x", "w"}, {"y"});
  Write("model.onnx", writer.Serialize());
  ExpectRefused({folder_ + "/model.onnx", "leads out of the folder"});
  EXPECT_FALSE(engine_->Describe(spec_).ok());
  std::filesystem::remove(secret);
}

TEST_F(OpenvinoLoadTest, ExternalDataStaysInTheFolderWhateverTheFileIsCalled) {
  OnnxWriter writer;
  writer.Input("x", DataType::kFp32, {-1, 8}).Output("y", DataType::kFp32, {-1, 8});
  writer.ExternalConstant("w", {8}, "../secret.bin").Node("Add", {"x", "w"}, {"y"});
  for (const char* name : {"model.tflite", "model.pb", "model.graphdef", "weights.bin", "model"}) {
    Write(name, writer.Serialize());
    spec_.filename = name;
    ExpectRefused({name, "../secret.bin", "leads out of the folder"});
  }
}

TEST_F(OpenvinoLoadTest, ExternalDataInTheFolderIsRead) {
  OnnxWriter writer;
  writer.Input("x", DataType::kFp32, {-1, 8}).Output("y", DataType::kFp32, {-1, 8});
  writer.ExternalConstant("w", {8}, "w.bin").Node("Add", {"x", "w"}, {"y"});
  Write("model.onnx", writer.Serialize());
  const std::vector<float> weights = {1, 2, 3, 4, 5, 6, 7, 8};
  Write("w.bin", {reinterpret_cast<const char*>(weights.data()), 32});
  auto model = engine_->Load(spec_);
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  testing::RecordingSink sink(spec_.outputs);
  ASSERT_TRUE(
      Run(model->get(), {testing::MakeTensor(DataType::kFp32, {1, 8}, std::vector<float>(8, 10))}, &sink)
          .ok());
  EXPECT_EQ(testing::Floats(*sink.Take(0)), (std::vector<float>{11, 12, 13, 14, 15, 16, 17, 18}));
}

TEST_F(OpenvinoLoadTest, WholeNumbersBeyond32BitsAreRefusedNotCut) {
  OnnxWriter writer;
  writer.Input("x", DataType::kInt64, {-1, 2})
      .Output("y", DataType::kInt64, {-1, 2})
      .Node("Add", {"x", "x"}, {"y"});
  Write("model.onnx", writer.Serialize());
  spec_.inputs = {{.name = "x", .type = DataType::kInt64, .dims = {2}}};
  spec_.outputs = {{.name = "y", .type = DataType::kInt64, .dims = {2}}};
  auto model = engine_->Load(spec_);
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  const auto check = [&](int64_t value) {
    const std::vector<Tensor> inputs = {
        testing::MakeTensor(DataType::kInt64, {1, 2}, std::vector<int64_t>{7, value})};
    testing::RecordingSink sink(spec_.outputs);
    EXPECT_EQ((*model)->CheckRequest(inputs), Run(model->get(), inputs, &sink)) << value;
    return (*model)->CheckRequest(inputs).code();
  };
  EXPECT_EQ(check(INT32_MAX), base::StatusCode::kOk);
  EXPECT_EQ(check(INT32_MIN), base::StatusCode::kOk);
  EXPECT_EQ(check(int64_t{INT32_MAX} + 1), base::StatusCode::kInvalidArgument);
  EXPECT_EQ(check(int64_t{INT32_MIN} - 1), base::StatusCode::kInvalidArgument);
  EXPECT_EQ(check(INT64_MIN), base::StatusCode::kInvalidArgument);
}

TEST_F(OpenvinoLoadTest, ReshapeIoLayersOverridesTheFile) {
  OnnxWriter writer;
  writer.Input("x", DataType::kFp32, {1, 8}).Output("y", DataType::kFp32, {1, 8}).Node("Relu", {"x"}, {"y"});
  Write("model.onnx", writer.Serialize());
  spec_.inputs[0].dims = spec_.outputs[0].dims = {3};
  ExpectRefused({"RESHAPE_IO_LAYERS"});
  spec_.parameters["RESHAPE_IO_LAYERS"] = "yes";
  auto model = engine_->Load(spec_);
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  testing::RecordingSink sink(spec_.outputs);
  ASSERT_TRUE(Run(model->get(),
                  {testing::MakeTensor(DataType::kFp32, {2, 3}, std::vector<float>{-1, 2, 3, -4, 5, 6})},
                  &sink)
                  .ok());
  EXPECT_EQ(testing::Floats(*sink.Take(0)), (std::vector<float>{0, 2, 3, 0, 5, 6}));
}

TEST_F(OpenvinoLoadTest, ConfiguredInstancesShareTheCores) {
  spec_.cores = 4;
  spec_.instance_count = 2;
  auto model = engine_->Load(spec_);
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  EXPECT_EQ((*model)->instances_advised(), 2);
  EXPECT_NE((*model)->choices().find("2 x 2 threads"), std::string::npos) << (*model)->choices();
  spec_.instance_count = 6;
  model = engine_->Load(spec_);
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  EXPECT_NE((*model)->choices().find("6 x 1 threads"), std::string::npos) << (*model)->choices();
}

TEST_F(OpenvinoLoadTest, MeasuresOnceAndRemembers) {
  spec_.instance_count = 0;
  spec_.parameters.clear();
  const auto first = engine_->Load(spec_);
  ASSERT_TRUE(first.ok()) << first.status().ToString();
  EXPECT_NE((*first)->choices().find(" us "), std::string::npos) << (*first)->choices();
  // Figures differ from measurement to measurement; the same ones mean that there was none.
  const auto second = engine_->Load(spec_);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ((*first)->choices(), (*second)->choices());
}

TEST_F(OpenvinoLoadTest, HintsAndLeftOverParametersAreNamed) {
  spec_.parameters["ENABLE_BATCH_PADDING"] = "YES";
  const auto model = engine_->Load(spec_);
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  EXPECT_NE((*model)->choices().find("without effect here: ENABLE_BATCH_PADDING"), std::string::npos)
      << (*model)->choices();
}

TEST_F(OpenvinoLoadTest, StaticSizesOnlyPadTheRest) {
  spec_.parameters["stoker.batch_mode"] = "static";
  spec_.max_batch_size = 20;
  spec_.batch_sizes_wanted = {6};
  const auto model = engine_->Load(spec_);
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  EXPECT_NE((*model)->choices().find("batches of 1,2,4,6,8,16,20"), std::string::npos) << (*model)->choices();
}

TEST_F(OpenvinoLoadTest, NetworksThatKeepStateAreRefused) {
  std::filesystem::remove(folder_ + "/model.onnx");
  const std::string port = "precision=\"FP32\"><dim>1</dim><dim>8</dim></port>";
  Write("model.xml",
        "<?xml version=\"1.0\"?><net name=\"net\" version=\"11\"><layers>"
        "<layer id=\"0\" name=\"x\" type=\"Parameter\" version=\"opset1\"><data shape=\"1,8\" "
        "element_type=\"f32\"/><output><port id=\"0\" names=\"x\" " +
            port +
            "</output></layer>"
            "<layer id=\"1\" name=\"r\" type=\"ReadValue\" version=\"opset6\"><data variable_id=\"v\" "
            "variable_type=\"f32\" variable_shape=\"1,8\"/><input><port id=\"0\" " +
            port + "</input><output><port id=\"1\" " + port +
            "</output></layer>"
            "<layer id=\"2\" name=\"y\" type=\"Add\" version=\"opset1\"><data "
            "auto_broadcast=\"numpy\"/><input><port id=\"0\" " +
            port + "<port id=\"1\" " + port + "</input><output><port id=\"2\" names=\"y\" " + port +
            "</output></layer>"
            "<layer id=\"3\" name=\"a\" type=\"Assign\" version=\"opset6\"><data "
            "variable_id=\"v\"/><input><port id=\"0\" " +
            port + "</input><output><port id=\"1\" " + port +
            "</output></layer>"
            "<layer id=\"4\" name=\"result\" type=\"Result\" version=\"opset1\"><input><port id=\"0\" " +
            port +
            "</input></layer></layers><edges>"
            "<edge from-layer=\"0\" from-port=\"0\" to-layer=\"1\" to-port=\"0\"/><edge from-layer=\"0\" "
            "from-port=\"0\" to-layer=\"2\" to-port=\"0\"/>"
            "<edge from-layer=\"1\" from-port=\"1\" to-layer=\"2\" to-port=\"1\"/><edge from-layer=\"2\" "
            "from-port=\"2\" to-layer=\"3\" to-port=\"0\"/>"
            "<edge from-layer=\"2\" from-port=\"2\" to-layer=\"4\" to-port=\"0\"/></edges></net>");
  Write("model.bin", "");
  ExpectRefused({"model.xml", "keeps state between runs"});
}

TEST_F(OpenvinoLoadTest, ConfiguredFileName) {
  std::filesystem::rename(folder_ + "/model.onnx", folder_ + "/other.onnx");
  ExpectRefused({"unable to find a model file in '" + folder_, "model.onnx, model.xml"});
  spec_.filename = "other.onnx";
  EXPECT_EQ(Refusal(), "");
  spec_.filename = "none.onnx";
  ExpectRefused({"unable to find '" + folder_ + "/none.onnx'"});
}

}  // namespace
}  // namespace stoker::engines
