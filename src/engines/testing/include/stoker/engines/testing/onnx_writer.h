#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <stoker/tensor/tensor.h>

namespace stoker::engines::testing {

/// A protobuf message being written: fields are appended in call order. Not thread-safe.
class ProtoWriter {
 public:
  ProtoWriter& Number(uint32_t field, uint64_t value);
  ProtoWriter& Text(uint32_t field, std::string_view value);
  ProtoWriter& Float(uint32_t field, float value);
  ProtoWriter& Message(uint32_t field, const ProtoWriter& value) { return Text(field, value.bytes()); }
  const std::string& bytes() const { return bytes_; }

 private:
  void Varint(uint64_t value);
  std::string bytes_;
};

/// Writes small ONNX models, so that tests need neither files nor the onnx package. Operator set 13,
/// IR version 8. Dimensions of -1 become symbolic ones. Not thread-safe.
class OnnxWriter {
 public:
  OnnxWriter& Input(std::string_view name, tensor::DataType type, const tensor::Shape& dims);
  OnnxWriter& Output(std::string_view name, tensor::DataType type, const tensor::Shape& dims);
  /// A constant with its elements as little-endian bytes.
  OnnxWriter& Constant(std::string_view name, tensor::DataType type, const tensor::Shape& dims,
                       std::string_view raw);
  OnnxWriter& FloatConstant(std::string_view name, const tensor::Shape& dims,
                            const std::vector<float>& values);
  OnnxWriter& IntConstant(std::string_view name, const tensor::Shape& dims,
                          const std::vector<int64_t>& values);
  /// A constant whose elements lie in another file.
  OnnxWriter& ExternalConstant(std::string_view name, const tensor::Shape& dims, std::string_view location);

  struct Attribute {
    std::string name;
    std::vector<int64_t> integers;  // one: an integer, several: a list
    bool is_list = false;
  };
  OnnxWriter& Node(std::string_view op, const std::vector<std::string>& inputs,
                   const std::vector<std::string>& outputs, const std::vector<Attribute>& attributes = {});
  std::string Serialize() const;

 private:
  ProtoWriter graph_;
};

/// y = relu(x·W + b) twice: "x" [rows, width] → "y" [rows, width], FP32, with weights made from `seed`.
/// `rows` may be -1 (a symbolic batch) or fixed.
std::string MlpOnnx(int64_t rows, int64_t width, uint64_t seed);

/// The answer of MlpOnnx for `x` of whole rows, computed the slow way in double precision.
std::vector<float> MlpReference(int64_t width, uint64_t seed, const std::vector<float>& x);

}  // namespace stoker::engines::testing
