// The OpenVINO engine, opened as the program opens it: the conformance suite over networks of every
// kind of batching, type and file format, and the rules of Triton's configuration.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <stoker/base/str_cat.h>
#include <stoker/engines/engines.h>
#include <stoker/engines/testing/conformance.h>
#include <stoker/engines/testing/onnx_writer.h>
#include <stoker/engines/testing/recording_sink.h>

#include "openvino/model_files.h"

namespace stoker::engines {
namespace {

using tensor::DataType;
using tensor::Shape;
using tensor::Tensor;
using testing::ConformanceModel;
using testing::EngineConformanceTest;
using testing::OnnxWriter;

// The module of this build lies beside the test.
std::unique_ptr<Engine> MakeOpenvino() {
  auto engines = MakeEngines();
  for (auto& engine : engines) {
    if (engine->name() == "openvino") return std::move(engine);
  }
  return nullptr;
}

ModelSpec Spec(int64_t max_batch_size, std::vector<TensorSpec> inputs, std::vector<TensorSpec> outputs) {
  ModelSpec spec;
  spec.name = "net";
  spec.backend = "openvino";
  spec.parameters["stoker.precision"] = "fp32";  // the references compute so, whatever the processor likes
  spec.max_batch_size = max_batch_size;
  spec.inputs = std::move(inputs);
  spec.outputs = std::move(outputs);
  spec.cores = 2;
  return spec;
}

std::vector<float> RandomFloats(size_t count, base::Rng& rng) {
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(rng.Uniform() * 2 - 1);
  return values;
}

// One FP32 input "x" and output "y" of `width` elements a row; y = reference(x row).
ConformanceModel RowModel(std::string label, int64_t max_batch_size, int64_t width,
                          std::function<float(const float* row, int64_t i)> reference) {
  ConformanceModel model;
  model.label = std::move(label);
  model.make_engine = MakeOpenvino;
  const Shape dims = max_batch_size > 0 ? Shape{width} : Shape{1, width};
  model.spec = Spec(max_batch_size, {{.name = "x", .type = DataType::kFp32, .dims = dims}},
                    {{.name = "y", .type = DataType::kFp32, .dims = dims}});
  model.make_inputs = [width](int64_t rows, base::Rng& rng) {
    return std::vector<Tensor>{testing::MakeTensor(DataType::kFp32, {rows, width},
                                                   RandomFloats(static_cast<size_t>(rows * width), rng))};
  };
  model.reference = [width, reference](const std::vector<Tensor>& inputs, int64_t rows) {
    const std::vector<float> x = testing::Floats(inputs[0]);
    std::vector<float> y(x.size());
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t i = 0; i < width; ++i)
        y[static_cast<size_t>(row * width + i)] = reference(x.data() + row * width, i);
    }
    return std::vector<Tensor>{testing::MakeTensor(DataType::kFp32, {rows, width}, y)};
  };
  model.tolerance = 1e-4;
  model.reloads = 24;
  return model;
}

ConformanceModel MlpModel(std::string label, int64_t file_rows, int64_t max_batch_size,
                          std::string batch_mode) {
  constexpr int64_t kWidth = 24;
  constexpr uint64_t kWeights = 11;
  ConformanceModel model = RowModel(std::move(label), max_batch_size, kWidth, nullptr);
  model.files = {{"model.onnx", testing::MlpOnnx(file_rows, kWidth, kWeights)}};
  model.spec.parameters["stoker.batch_mode"] = std::move(batch_mode);
  model.reference = [](const std::vector<Tensor>& inputs, int64_t rows) {
    return std::vector<Tensor>{
        testing::MakeTensor(DataType::kFp32, {rows, kWidth},
                            testing::MlpReference(kWidth, kWeights, testing::Floats(inputs[0])))};
  };
  return model;
}

// y[i] = x transposed as [3, 2], with a hard-coded batch: no other batch than `file_rows` is possible.
ConformanceModel FixedReshapeModel(std::string label, int64_t file_rows, int64_t max_batch_size) {
  OnnxWriter writer;
  writer.Input("x", DataType::kFp32, {file_rows, 6}).Output("y", DataType::kFp32, {file_rows, 6});
  writer.IntConstant("inner", {3}, {file_rows, 3, 2}).IntConstant("outer", {2}, {file_rows, 6});
  writer.Node("Reshape", {"x", "inner"}, {"a"})
      .Node("Transpose", {"a"}, {"b"}, {{.name = "perm", .integers = {0, 2, 1}, .is_list = true}})
      .Node("Reshape", {"b", "outer"}, {"y"});
  ConformanceModel model = RowModel(std::move(label), max_batch_size, 6,
                                    [](const float* row, int64_t i) { return row[(i % 3) * 2 + i / 3]; });
  model.files = {{"model.onnx", writer.Serialize()}};
  model.batchable = max_batch_size == 0;
  return model;
}

// y = 2x - mean over the batch of x: the file's batch of 1 makes that x; in a larger batch rows mix.
ConformanceModel MixingRowsModel() {
  OnnxWriter writer;
  writer.Input("x", DataType::kFp32, {1, 4})
      .Output("y", DataType::kFp32, {1, 4})
      .FloatConstant("two", {1}, {2});
  writer
      .Node("ReduceMean", {"x"}, {"mean"},
            {{.name = "axes", .integers = {0}, .is_list = true}, {.name = "keepdims", .integers = {1}}})
      .Node("Mul", {"x", "two"}, {"doubled"})
      .Node("Sub", {"doubled", "mean"}, {"y"});
  ConformanceModel model =
      RowModel("RowsThatWouldMix", 4, 4, [](const float* row, int64_t i) { return row[i]; });
  model.files = {{"model.onnx", writer.Serialize()}};
  return model;
}

// Two inputs of open length, two outputs: y = a + b, of the same length, and their sum.
ConformanceModel OpenLengthModel(std::string label, int64_t max_batch_size) {
  OnnxWriter writer;
  writer.Input("a", DataType::kFp32, {-1, -1}).Input("b", DataType::kFp32, {-1, -1});
  writer.Output("sum", DataType::kFp32, {-1, 1})
      .Output("y", DataType::kFp32, {-1, -1})
      .IntConstant("axes", {1}, {1});
  writer.Node("Add", {"a", "b"}, {"y"})
      .Node("ReduceSum", {"y", "axes"}, {"sum"}, {{.name = "keepdims", .integers = {1}}});
  ConformanceModel model;
  model.label = std::move(label);
  model.make_engine = MakeOpenvino;
  const bool batched = max_batch_size > 0;
  const Shape open = batched ? Shape{-1} : Shape{-1, -1};
  model.spec = Spec(max_batch_size,
                    {{.name = "b", .type = DataType::kFp32, .dims = open},
                     {.name = "a", .type = DataType::kFp32, .dims = open}},
                    {{.name = "y", .type = DataType::kFp32, .dims = open},
                     {.name = "sum", .type = DataType::kFp32, .dims = batched ? Shape{1} : Shape{-1, 1}}});
  model.files = {{"model.onnx", writer.Serialize()}};
  model.make_inputs = [](int64_t rows, base::Rng& rng) {
    const auto length = static_cast<int64_t>(1 + rng.Below(40));
    const auto draw = [&] {
      return testing::MakeTensor(DataType::kFp32, {rows, length},
                                 RandomFloats(static_cast<size_t>(rows * length), rng));
    };
    return std::vector<Tensor>{draw(), draw()};
  };
  model.reference = [](const std::vector<Tensor>& inputs, int64_t rows) {
    std::vector<float> y = testing::Floats(inputs[0]);
    const std::vector<float> a = testing::Floats(inputs[1]);
    std::vector<float> sums(static_cast<size_t>(rows));
    for (size_t i = 0; i < y.size(); ++i) {
      y[i] += a[i];
      sums[i / (y.size() / sums.size())] += y[i];
    }
    return std::vector<Tensor>{testing::MakeTensor(DataType::kFp32, inputs[0].shape, y),
                               testing::MakeTensor(DataType::kFp32, {rows, 1}, sums)};
  };
  model.tolerance = 1e-4;
  model.reloads = 24;
  return model;
}

// "x" and "y" of a type, three elements a row; nothing of it is worth measuring.
ConformanceModel TypeModel(DataType type, const OnnxWriter& writer) {
  ConformanceModel model;
  model.label = std::string(ProtocolName(type));
  model.make_engine = MakeOpenvino;
  model.spec =
      Spec(4, {{.name = "x", .type = type, .dims = {3}}}, {{.name = "y", .type = type, .dims = {3}}});
  model.spec.instance_count = 1;
  model.spec.parameters["stoker.batch_mode"] = "dynamic";
  model.files = {{"model.onnx", writer.Serialize()}};
  model.reloads = 12;
  return model;
}

// y = x + x.
template <typename T>
ConformanceModel DoublingModel(DataType type, T limit) {
  OnnxWriter writer;
  writer.Input("x", type, {-1, 3}).Output("y", type, {-1, 3}).Node("Add", {"x", "x"}, {"y"});
  ConformanceModel model = TypeModel(type, writer);
  model.make_inputs = [type, limit](int64_t rows, base::Rng& rng) {
    std::vector<T> values(static_cast<size_t>(rows) * 3);
    for (T& value : values) value = static_cast<T>(rng.Uniform() * static_cast<double>(limit));
    return std::vector<Tensor>{testing::MakeTensor(type, {rows, 3}, values)};
  };
  model.reference = [type](const std::vector<Tensor>& inputs, int64_t rows) {
    std::vector<T> values(inputs[0].bytes.size() / sizeof(T));
    std::memcpy(values.data(), inputs[0].bytes.data(), inputs[0].bytes.size());
    for (T& value : values) value = static_cast<T>(value + value);
    return std::vector<Tensor>{testing::MakeTensor(type, {rows, 3}, values)};
  };
  // The CPU plugin computes FP64 as FP32.
  if (type == DataType::kFp64) model.tolerance = 1e-6;
  return model;
}

// y = not x.
ConformanceModel NegatingModel() {
  OnnxWriter writer;
  writer.Input("x", DataType::kBool, {-1, 3}).Output("y", DataType::kBool, {-1, 3}).Node("Not", {"x"}, {"y"});
  ConformanceModel model = TypeModel(DataType::kBool, writer);
  model.make_inputs = [](int64_t rows, base::Rng& rng) {
    std::vector<uint8_t> values(static_cast<size_t>(rows) * 3);
    for (uint8_t& value : values) value = static_cast<uint8_t>(rng.Below(2));
    return std::vector<Tensor>{testing::MakeTensor(DataType::kBool, {rows, 3}, values)};
  };
  model.reference = [](const std::vector<Tensor>& inputs, int64_t) {
    std::string flipped(inputs[0].bytes.text());
    for (char& c : flipped) c = c == 0 ? 1 : 0;
    return std::vector<Tensor>{
        {.type = DataType::kBool, .shape = inputs[0].shape, .bytes = base::Bytes::Own(flipped)}};
  };
  return model;
}

// y = x + x for the halves: small whole numbers times a power of two, which both types hold exactly.
ConformanceModel HalvesModel(DataType type) {
  OnnxWriter writer;
  writer.Input("x", type, {-1, 3}).Output("y", type, {-1, 3}).Node("Add", {"x", "x"}, {"y"});
  ConformanceModel model = TypeModel(type, writer);
  // Doubling raises the exponent by one, which starts at bit 10 or 7.
  const uint16_t exponent_step = type == DataType::kFp16 ? 1 << 10 : 1 << 7;
  model.make_inputs = [type](int64_t rows, base::Rng& rng) {
    std::vector<uint16_t> values(static_cast<size_t>(rows) * 3);
    for (uint16_t& value : values)
      value = static_cast<uint16_t>((rng.Below(2) << 15) | (type == DataType::kFp16 ? 0x3c00 : 0x3f80) |
                                    rng.Below(128));
    return std::vector<Tensor>{testing::MakeTensor(type, {rows, 3}, values)};
  };
  model.reference = [type, exponent_step](const std::vector<Tensor>& inputs, int64_t rows) {
    std::vector<uint16_t> values(inputs[0].bytes.size() / 2);
    std::memcpy(values.data(), inputs[0].bytes.data(), inputs[0].bytes.size());
    for (uint16_t& value : values) value = static_cast<uint16_t>(value + exponent_step);
    return std::vector<Tensor>{testing::MakeTensor(type, {rows, 3}, values)};
  };
  return model;
}

ConformanceModel FormatModel(std::string label, testing::ModelFiles files, std::string backend) {
  ConformanceModel model =
      RowModel(std::move(label), 5, 7, [](const float* row, int64_t i) { return 2 * row[i] + 0.25F; });
  model.files = std::move(files);
  model.spec.instance_count = 1;
  model.spec.backend = std::move(backend);
  model.reloads = 12;
  return model;
}

INSTANTIATE_TEST_SUITE_P(
    Batching, EngineConformanceTest,
    ::testing::Values(MlpModel("OpenBatch", -1, 8, "auto"), MlpModel("FixedOne", 1, 8, "dynamic"),
                      MlpModel("FixedFour", 4, 7, "auto"), MlpModel("StaticSizes", -1, 7, "static"),
                      MlpModel("NoBatching", 1, 0, "auto"), MlpModel("BatchOfOne", -1, 1, "auto"),
                      FixedReshapeModel("RowByRow", 1, 5), FixedReshapeModel("GroupsOfThree", 3, 8),
                      MixingRowsModel(), OpenLengthModel("OpenLength", 6),
                      OpenLengthModel("OpenEverything", 0)),
    testing::ConformanceName);

INSTANTIATE_TEST_SUITE_P(Types, EngineConformanceTest,
                         ::testing::Values(DoublingModel<uint8_t>(DataType::kUint8, 100),
                                           DoublingModel<uint16_t>(DataType::kUint16, 30000),
                                           DoublingModel<uint32_t>(DataType::kUint32, 1000000),
                                           DoublingModel<uint64_t>(DataType::kUint64, 1000000),
                                           DoublingModel<int8_t>(DataType::kInt8, 60),
                                           DoublingModel<int16_t>(DataType::kInt16, -15000),
                                           DoublingModel<int32_t>(DataType::kInt32, -1000000000),
                                           DoublingModel<int64_t>(DataType::kInt64, -1000000000),
                                           DoublingModel<float>(DataType::kFp32, 1e30F),
                                           DoublingModel<double>(DataType::kFp64, 1000), NegatingModel(),
                                           HalvesModel(DataType::kFp16), HalvesModel(DataType::kBf16)),
                         testing::ConformanceName);

INSTANTIATE_TEST_SUITE_P(
    Formats, EngineConformanceTest,
    ::testing::Values(FormatModel("OpenvinoIr", testing::IrModel(7, 0.25F), "openvino"),
                      FormatModel("SavedModel", testing::SavedModel(7, 0.25F), "tensorflow"),
                      FormatModel("GraphDef", testing::GraphDefModel(7, 0.25F), "tensorflow"),
                      FormatModel("Tflite", testing::TfliteModel(7, 0.25F), "openvino")),
    testing::ConformanceName);

}  // namespace
}  // namespace stoker::engines
