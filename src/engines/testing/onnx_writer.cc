#include <stoker/engines/testing/onnx_writer.h>

#include <algorithm>
#include <array>
#include <cstring>

#include <stoker/base/rng.h>

namespace stoker::engines::testing {
namespace {

using tensor::DataType;
using tensor::Shape;

// TensorProto.DataType.
uint64_t OnnxType(DataType type) {
  constexpr std::array<uint64_t, tensor::kDataTypeCount> kTypes = {0, 9, 2,  4, 12, 13, 3, 5,
                                                                   6, 7, 10, 1, 11, 8,  16};
  return kTypes[static_cast<size_t>(type)];
}

ProtoWriter ValueInfo(std::string_view name, DataType type, const Shape& dims) {
  ProtoWriter shape;
  for (size_t i = 0; i < dims.rank(); ++i) {
    ProtoWriter dim;
    if (dims[i] < 0)
      dim.Text(2, std::string("d") + std::to_string(i));
    else
      dim.Number(1, static_cast<uint64_t>(dims[i]));
    shape.Message(1, dim);
  }
  ProtoWriter tensor_type;
  tensor_type.Number(1, OnnxType(type)).Message(2, shape);
  ProtoWriter type_proto;
  type_proto.Message(1, tensor_type);
  ProtoWriter info;
  return info.Text(1, name).Message(2, type_proto);
}

ProtoWriter TensorHead(std::string_view name, DataType type, const Shape& dims) {
  ProtoWriter tensor;
  for (const int64_t dim : dims) tensor.Number(1, static_cast<uint64_t>(dim));
  return tensor.Number(2, OnnxType(type)).Text(8, name);
}

struct MlpWeights {
  std::vector<float> w1, b1, w2, b2;
};

MlpWeights MakeMlpWeights(int64_t width, uint64_t seed) {
  base::Rng rng(seed);
  const auto draw = [&](size_t count, double scale) {
    std::vector<float> values(count);
    for (float& value : values) value = static_cast<float>((rng.Uniform() - 0.5) * scale);
    return values;
  };
  const auto size = static_cast<size_t>(width);
  const double scale = 4.0 / static_cast<double>(width);
  return {.w1 = draw(size * size, scale),
          .b1 = draw(size, 1),
          .w2 = draw(size * size, scale),
          .b2 = draw(size, 1)};
}

}  // namespace

void ProtoWriter::Varint(uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<char>(value | 0x80));
  bytes_.push_back(static_cast<char>(value));
}

ProtoWriter& ProtoWriter::Number(uint32_t field, uint64_t value) {
  Varint(field << 3);
  Varint(value);
  return *this;
}

ProtoWriter& ProtoWriter::Text(uint32_t field, std::string_view value) {
  Varint(field << 3 | 2);
  Varint(value.size());
  bytes_.append(value);
  return *this;
}

ProtoWriter& ProtoWriter::Float(uint32_t field, float value) {
  Varint(field << 3 | 5);
  char raw[sizeof(value)];
  std::memcpy(raw, &value, sizeof(value));
  bytes_.append(raw, sizeof(value));
  return *this;
}

OnnxWriter& OnnxWriter::Input(std::string_view name, DataType type, const Shape& dims) {
  graph_.Message(11, ValueInfo(name, type, dims));
  return *this;
}

OnnxWriter& OnnxWriter::Output(std::string_view name, DataType type, const Shape& dims) {
  graph_.Message(12, ValueInfo(name, type, dims));
  return *this;
}

OnnxWriter& OnnxWriter::Constant(std::string_view name, DataType type, const Shape& dims,
                                 std::string_view raw) {
  graph_.Message(5, TensorHead(name, type, dims).Text(9, raw));
  return *this;
}

OnnxWriter& OnnxWriter::FloatConstant(std::string_view name, const Shape& dims,
                                      const std::vector<float>& values) {
  return Constant(name, DataType::kFp32, dims,
                  {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
}

OnnxWriter& OnnxWriter::IntConstant(std::string_view name, const Shape& dims,
                                    const std::vector<int64_t>& values) {
  return Constant(name, DataType::kInt64, dims,
                  {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(int64_t)});
}

OnnxWriter& OnnxWriter::ExternalConstant(std::string_view name, const Shape& dims,
                                         std::string_view location) {
  ProtoWriter entry;
  entry.Text(1, "location").Text(2, location);
  graph_.Message(5, TensorHead(name, DataType::kFp32, dims).Message(13, entry).Number(14, 1));
  return *this;
}

OnnxWriter& OnnxWriter::Node(std::string_view op, const std::vector<std::string>& inputs,
                             const std::vector<std::string>& outputs,
                             const std::vector<Attribute>& attributes) {
  ProtoWriter node;
  for (const std::string& name : inputs) node.Text(1, name);
  for (const std::string& name : outputs) node.Text(2, name);
  node.Text(3, outputs.empty() ? op : std::string_view(outputs[0])).Text(4, op);
  for (const Attribute& attribute : attributes) {
    ProtoWriter field;
    field.Text(1, attribute.name);
    for (const int64_t value : attribute.integers)
      field.Number(attribute.is_list ? 8 : 3, static_cast<uint64_t>(value));
    node.Message(5, field.Number(20, attribute.is_list ? 7 : 2));
  }
  graph_.Message(1, node);
  return *this;
}

std::string OnnxWriter::Serialize() const {
  ProtoWriter graph = graph_;
  graph.Text(2, "graph");
  ProtoWriter opset;
  opset.Text(1, "").Number(2, 13);
  ProtoWriter model;
  return model.Number(1, 8).Message(7, graph).Message(8, opset).bytes();
}

std::string MlpOnnx(int64_t rows, int64_t width, uint64_t seed) {
  const MlpWeights weights = MakeMlpWeights(width, seed);
  OnnxWriter writer;
  writer.Input("x", DataType::kFp32, {rows, width}).Output("y", DataType::kFp32, {rows, width});
  writer.FloatConstant("w1", {width, width}, weights.w1).FloatConstant("b1", {width}, weights.b1);
  writer.FloatConstant("w2", {width, width}, weights.w2).FloatConstant("b2", {width}, weights.b2);
  writer.Node("MatMul", {"x", "w1"}, {"m1"}).Node("Add", {"m1", "b1"}, {"a1"}).Node("Relu", {"a1"}, {"h"});
  writer.Node("MatMul", {"h", "w2"}, {"m2"}).Node("Add", {"m2", "b2"}, {"a2"}).Node("Relu", {"a2"}, {"y"});
  return writer.Serialize();
}

std::vector<float> MlpReference(int64_t width, uint64_t seed, const std::vector<float>& x) {
  const MlpWeights weights = MakeMlpWeights(width, seed);
  const auto size = static_cast<size_t>(width);
  const auto layer = [&](const std::vector<double>& in, const std::vector<float>& w,
                         const std::vector<float>& b) {
    std::vector<double> out(in.size());
    for (size_t row = 0; row < in.size() / size; ++row) {
      for (size_t column = 0; column < size; ++column) {
        double sum = b[column];
        for (size_t k = 0; k < size; ++k) sum += in[row * size + k] * w[k * size + column];
        out[row * size + column] = std::max(sum, 0.0);
      }
    }
    return out;
  };
  const std::vector<double> y =
      layer(layer(std::vector<double>(x.begin(), x.end()), weights.w1, weights.b1), weights.w2, weights.b2);
  return {y.begin(), y.end()};
}

}  // namespace stoker::engines::testing
