#include "openvino/model_files.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include <stoker/base/str_cat.h>
#include <stoker/engines/testing/onnx_writer.h>

namespace stoker::engines::testing {
namespace {

constexpr uint64_t kTfFloat = 1;  // DT_FLOAT

std::string Raw(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

std::string IrPort(int id, int width) {
  return base::StrCat("<port id=\"", id, "\" precision=\"FP32\"><dim>1</dim><dim>", width, "</dim></port>");
}

std::string IrConst(int id, int offset, int width) {
  return base::StrCat("<layer id=\"", id, "\" name=\"c", id,
                      "\" type=\"Const\" version=\"opset1\"><data element_type=\"f32\" shape=\"1,", width,
                      "\" offset=\"", offset, "\" size=\"", 4 * width, "\"/><output>", IrPort(0, width),
                      "</output></layer>");
}

std::string IrBinary(int id, const char* type, const char* name, int width) {
  return base::StrCat("<layer id=\"", id, "\" name=\"", name, "\" type=\"", type,
                      "\" version=\"opset1\"><data auto_broadcast=\"numpy\"/><input>", IrPort(0, width),
                      IrPort(1, width), "</input><output><port id=\"2\" precision=\"FP32\" names=\"", name,
                      "\"><dim>1</dim><dim>", width, "</dim></port></output></layer>");
}

ProtoWriter TfShape(int width) {
  ProtoWriter one, two, shape;
  return shape.Message(2, one.Number(1, 1)).Message(2, two.Number(1, static_cast<uint64_t>(width)));
}

ProtoWriter TfAttribute(std::string_view name, const ProtoWriter& value) {
  ProtoWriter entry;
  return entry.Text(1, name).Message(2, value);
}

ProtoWriter TfType(uint64_t type) {
  ProtoWriter value;
  return value.Number(6, type);
}

ProtoWriter TfConst(std::string_view name, int width, const std::vector<float>& values) {
  ProtoWriter tensor, value, node;
  tensor.Number(1, kTfFloat).Message(2, TfShape(width)).Text(4, Raw(values));
  return node.Text(1, name)
      .Text(2, "Const")
      .Message(5, TfAttribute("dtype", TfType(kTfFloat)))
      .Message(5, TfAttribute("value", value.Message(8, tensor)));
}

ProtoWriter TfBinary(std::string_view name, std::string_view op, std::string_view a, std::string_view b) {
  ProtoWriter node;
  return node.Text(1, name).Text(2, op).Text(3, a).Text(3, b).Message(5, TfAttribute("T", TfType(kTfFloat)));
}

ProtoWriter TfGraph(int width, float offset) {
  ProtoWriter shape, placeholder, graph, versions;
  placeholder.Text(1, "x")
      .Text(2, "Placeholder")
      .Message(5, TfAttribute("dtype", TfType(kTfFloat)))
      .Message(5, TfAttribute("shape", shape.Message(7, TfShape(width))));
  const auto count = static_cast<size_t>(width);
  return graph.Message(1, placeholder)
      .Message(1, TfConst("two", width, std::vector<float>(count, 2)))
      .Message(1, TfConst("offset", width, std::vector<float>(count, offset)))
      .Message(1, TfBinary("doubled", "Mul", "x", "two"))
      .Message(1, TfBinary("y", "AddV2", "doubled", "offset"))
      .Message(4, versions.Number(1, 1482));
}

ProtoWriter TfTensorInfo(std::string_view key, std::string_view tensor, int width) {
  ProtoWriter info, entry;
  info.Text(1, tensor).Number(2, kTfFloat).Message(3, TfShape(width));
  return entry.Text(1, key).Message(2, info);
}

// A FlatBuffers value, written parents first: a table of numbered fields, a vector, or plain bytes.
struct Flat {
  enum class Kind : uint8_t { kNumber, kTable, kVector, kBytes, kText } kind = Kind::kNumber;
  uint32_t number = 0;
  std::vector<std::pair<int, Flat>> fields;  // kTable; a vector's elements without regard to the first
  std::string bytes;
};

Flat FlatNumber(uint32_t value) {
  return {.kind = Flat::Kind::kNumber, .number = value, .fields = {}, .bytes = {}};
}
Flat FlatTable(std::vector<std::pair<int, Flat>> fields) {
  return {.kind = Flat::Kind::kTable, .number = 0, .fields = std::move(fields), .bytes = {}};
}
Flat FlatVector(const std::vector<Flat>& elements) {
  Flat vector{.kind = Flat::Kind::kVector, .number = 0, .fields = {}, .bytes = {}};
  for (const Flat& element : elements) vector.fields.emplace_back(0, element);
  return vector;
}
Flat FlatInts(const std::vector<uint32_t>& values) {
  std::vector<Flat> numbers;
  for (const uint32_t value : values) numbers.push_back(FlatNumber(value));
  return FlatVector(numbers);
}
Flat FlatText(std::string text) {
  return {.kind = Flat::Kind::kText, .number = 0, .fields = {}, .bytes = std::move(text)};
}
Flat FlatBytes(std::string bytes) {
  return {.kind = Flat::Kind::kBytes, .number = 0, .fields = {}, .bytes = std::move(bytes)};
}

class FlatWriter {
 public:
  std::string Write(const Flat& root, std::string_view identifier) {
    Put(0);
    out_.append(identifier);
    Patch(0, Value(root));
    return out_;
  }

 private:
  void Align(size_t to, size_t offset = 0) {
    while ((out_.size() + offset) % to != 0) out_.push_back('\0');
  }
  void Put(uint32_t value) { out_.append(reinterpret_cast<const char*>(&value), sizeof(value)); }
  void Patch(size_t at, size_t target) {
    const auto distance = static_cast<uint32_t>(target - at);
    std::memcpy(out_.data() + at, &distance, sizeof(distance));
  }
  // Writes the slots of a table or vector, then what they point to.
  void Slots(const std::vector<std::pair<int, Flat>>& fields) {
    const size_t first = out_.size();
    for (const auto& [id, field] : fields) Put(field.number);
    for (size_t i = 0; i < fields.size(); ++i) {
      if (fields[i].second.kind != Flat::Kind::kNumber) Patch(first + 4 * i, Value(fields[i].second));
    }
  }
  size_t Table(const Flat& table) {
    int last = -1;
    for (const auto& [id, field] : table.fields) last = std::max(last, id);
    Align(4);
    std::vector<uint16_t> vtable(2 + static_cast<size_t>(last + 1), 0);
    vtable[0] = static_cast<uint16_t>(2 * vtable.size());
    vtable[1] = static_cast<uint16_t>(4 + 4 * table.fields.size());
    for (size_t i = 0; i < table.fields.size(); ++i)
      vtable[2 + static_cast<size_t>(table.fields[i].first)] = static_cast<uint16_t>(4 + 4 * i);
    const size_t vtable_at = out_.size();
    out_.append(reinterpret_cast<const char*>(vtable.data()), 2 * vtable.size());
    Align(4);
    const size_t at = out_.size();
    Put(static_cast<uint32_t>(at - vtable_at));
    Slots(table.fields);
    return at;
  }
  size_t Value(const Flat& value) {
    if (value.kind == Flat::Kind::kTable) return Table(value);
    Align(value.kind == Flat::Kind::kBytes ? 16 : 4, value.kind == Flat::Kind::kBytes ? 4 : 0);
    const size_t at = out_.size();
    if (value.kind == Flat::Kind::kVector) {
      Put(static_cast<uint32_t>(value.fields.size()));
      Slots(value.fields);
    } else {
      Put(static_cast<uint32_t>(value.bytes.size()));
      out_.append(value.bytes);
      if (value.kind == Flat::Kind::kText) out_.push_back('\0');
    }
    return at;
  }
  std::string out_;
};

Flat TfliteTensor(const char* name, uint32_t width, uint32_t buffer) {
  return FlatTable({{0, FlatInts({1, width})}, {2, FlatNumber(buffer)}, {3, FlatText(name)}});
}

Flat TfliteBinary(uint32_t code, uint32_t a, uint32_t b, std::pair<uint32_t, uint32_t> result_and_options) {
  const auto [result, options] = result_and_options;
  return FlatTable({{0, FlatNumber(code)},
                    {1, FlatInts({a, b})},
                    {2, FlatInts({result})},
                    {3, FlatNumber(options)},
                    {4, FlatTable({})}});
}

}  // namespace

ModelFiles TfliteModel(int width, float offset) {
  constexpr uint32_t kAdd = 0, kMul = 18, kAddOptions = 11, kMulOptions = 21;
  const auto size = static_cast<uint32_t>(width);
  const Flat buffers =
      FlatVector({FlatTable({}), FlatTable({{0, FlatBytes(Raw(std::vector<float>(size, 2)))}}),
                  FlatTable({{0, FlatBytes(Raw(std::vector<float>(size, offset)))}})});
  const Flat codes =
      FlatVector({FlatTable({{0, FlatNumber(kMul)}, {2, FlatNumber(1)}, {3, FlatNumber(kMul)}}),
                  FlatTable({{0, FlatNumber(kAdd)}, {2, FlatNumber(1)}, {3, FlatNumber(kAdd)}})});
  const Flat tensors =
      FlatVector({TfliteTensor("x", size, 0), TfliteTensor("two", size, 1), TfliteTensor("offset", size, 2),
                  TfliteTensor("doubled", size, 0), TfliteTensor("y", size, 0)});
  const Flat operators =
      FlatVector({TfliteBinary(0, 0, 1, {3, kMulOptions}), TfliteBinary(1, 3, 2, {4, kAddOptions})});
  const Flat subgraph = FlatTable(
      {{0, tensors}, {1, FlatInts({0})}, {2, FlatInts({4})}, {3, operators}, {4, FlatText("main")}});
  const Flat model = FlatTable(
      {{0, FlatNumber(3)}, {1, codes}, {2, FlatVector({subgraph})}, {3, FlatText("")}, {4, buffers}});
  return {{"model.tflite", FlatWriter().Write(model, "TFL3")}};
}

ModelFiles IrModel(int width, float offset) {
  std::string xml = "<?xml version=\"1.0\"?><net name=\"net\" version=\"11\"><layers>";
  base::StrAppend(
      &xml, "<layer id=\"0\" name=\"x\" type=\"Parameter\" version=\"opset1\"><data shape=\"1,", width,
      "\" element_type=\"f32\"/><output><port id=\"0\" precision=\"FP32\" names=\"x\"><dim>1</dim><dim>",
      width, "</dim></port></output></layer>");
  base::StrAppend(&xml, IrConst(1, 0, width), IrConst(2, 4 * width, width),
                  IrBinary(3, "Multiply", "doubled", width), IrBinary(4, "Add", "y", width));
  base::StrAppend(&xml, "<layer id=\"5\" name=\"result\" type=\"Result\" version=\"opset1\"><input>",
                  IrPort(0, width), "</input></layer></layers>");
  base::StrAppend(&xml, "<edges><edge from-layer=\"0\" from-port=\"0\" to-layer=\"3\" to-port=\"0\"/>",
                  "<edge from-layer=\"1\" from-port=\"0\" to-layer=\"3\" to-port=\"1\"/>",
                  "<edge from-layer=\"3\" from-port=\"2\" to-layer=\"4\" to-port=\"0\"/>",
                  "<edge from-layer=\"2\" from-port=\"0\" to-layer=\"4\" to-port=\"1\"/>",
                  "<edge from-layer=\"4\" from-port=\"2\" to-layer=\"5\" to-port=\"0\"/></edges></net>");
  const auto count = static_cast<size_t>(width);
  return {{"model.xml", xml},
          {"model.bin", Raw(std::vector<float>(count, 2)) + Raw(std::vector<float>(count, offset))}};
}

ModelFiles GraphDefModel(int width, float offset) {
  return {{"model.graphdef", TfGraph(width, offset).bytes()}};
}

ModelFiles SavedModel(int width, float offset) {
  ProtoWriter info, signature, signature_entry, meta_graph, saved;
  info.Text(4, "serve").Text(5, "2.15.0");
  signature.Message(1, TfTensorInfo("x", "x:0", width))
      .Message(2, TfTensorInfo("y", "y:0", width))
      .Text(3, "tensorflow/serving/predict");
  signature_entry.Text(1, "serving_default").Message(2, signature);
  meta_graph.Message(1, info).Message(2, TfGraph(width, offset)).Message(5, signature_entry);
  return {{"model.savedmodel/saved_model.pb", saved.Number(1, 1).Message(2, meta_graph).bytes()}};
}

}  // namespace stoker::engines::testing
