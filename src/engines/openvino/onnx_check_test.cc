// The check of ONNX files before a runtime opens them: external data must stay in the model's folder.
#include "openvino/onnx_check.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include <stoker/base/rng.h>
#include <stoker/engines/testing/onnx_writer.h>

namespace stoker::engines::internal {
namespace {

using testing::OnnxWriter;
using testing::ProtoWriter;

base::Result<std::vector<std::string>> Locations(const std::string& bytes) {
  std::istringstream stream(bytes);
  return ExternalDataLocations(stream);
}

ProtoWriter ExternalTensor(const std::string& location) {
  ProtoWriter entry;
  entry.Text(1, "location").Text(2, location);
  ProtoWriter offset;
  offset.Text(1, "offset").Text(2, "0");
  ProtoWriter tensor;
  return tensor.Number(1, 4).Number(2, 1).Text(8, "w").Message(13, entry).Message(13, offset).Number(14, 1);
}

TEST(OnnxCheckTest, FindsLocationsWhereverTensorsAre) {
  ProtoWriter sparse, sparse_graph_tensor;
  sparse.Message(1, ExternalTensor("values")).Message(2, ExternalTensor("indices"));
  ProtoWriter attribute_tensor, attribute_list, attribute_graph, attribute_sparse, inner_graph;
  attribute_tensor.Text(1, "value").Message(5, ExternalTensor("attribute"));
  attribute_list.Text(1, "values").Message(10, ExternalTensor("attributes"));
  inner_graph.Message(5, ExternalTensor("inner"));
  attribute_graph.Text(1, "then_branch").Message(6, inner_graph);
  ProtoWriter graphs;
  graphs.Text(1, "bodies").Message(11, inner_graph);
  attribute_sparse.Text(1, "sparse_value").Message(22, sparse).Message(23, sparse);
  ProtoWriter node;
  node.Message(5, attribute_tensor)
      .Message(5, attribute_list)
      .Message(5, attribute_graph)
      .Message(5, attribute_sparse)
      .Message(5, graphs);
  ProtoWriter function_node, function_attribute, function;
  function_attribute.Message(5, ExternalTensor("function"));
  function_node.Message(5, function_attribute);
  function.Message(7, function_node).Message(11, function_attribute);
  ProtoWriter graph;
  graph.Message(1, node).Message(5, ExternalTensor("initializer")).Message(15, sparse);
  ProtoWriter training;
  ProtoWriter training_graph;
  training_graph.Message(5, ExternalTensor("training"));
  training.Message(1, training_graph).Message(2, training_graph);
  ProtoWriter model;
  model.Number(1, 8).Message(7, graph).Message(20, training).Message(25, function);
  const auto locations = Locations(model.bytes());
  ASSERT_TRUE(locations.ok()) << locations.status().ToString();
  EXPECT_EQ(*locations, (std::vector<std::string>{"attribute", "attributes", "function", "indices",
                                                  "initializer", "inner", "training", "values"}));
}

TEST(OnnxCheckTest, TakesRealModelsWithoutExternalData) {
  const auto locations = Locations(testing::MlpOnnx(-1, 8, 1));
  ASSERT_TRUE(locations.ok()) << locations.status().ToString();
  EXPECT_TRUE(locations->empty());
}

TEST(OnnxCheckTest, RefusesBytesThatAreNoModel) {
  EXPECT_NE(Locations("").status().message().find("the file is empty"), std::string::npos);
  EXPECT_FALSE(Locations("PK\x03\x04 zip").ok());
  EXPECT_FALSE(Locations(std::string(100, '\xff')).ok());
  ProtoWriter no_graph;
  no_graph.Number(1, 8);
  EXPECT_NE(Locations(no_graph.bytes()).status().message().find("no graph"), std::string::npos);
}

TEST(OnnxCheckTest, RefusesBottomlessNesting) {
  std::string graph;
  for (int i = 0; i < 200; ++i) {
    ProtoWriter attribute, node, outer;
    attribute.Text(6, graph);
    node.Text(5, attribute.bytes());
    outer.Text(1, node.bytes());
    graph = outer.bytes();
  }
  ProtoWriter model;
  model.Text(7, graph);
  EXPECT_NE(Locations(model.bytes()).status().message().find("nest too deep"), std::string::npos);
}

TEST(OnnxCheckTest, CutModelsAreRefusedOrShorter) {
  const std::string whole = testing::MlpOnnx(-1, 4, 1);
  for (size_t size = 0; size < whole.size(); ++size) {
    const auto locations = Locations(whole.substr(0, size));
    if (locations.ok()) continue;
    EXPECT_NE(locations.status().message().find("byte "), std::string::npos);
  }
}

class OnnxFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "stoker-onnx-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    std::filesystem::create_directories(root_ / "model/1/sub");
    Write("secret", "0123456789abcdef");
    Write("model/1/weights", "0123456789abcdef");
    Write("model/1/sub/weights", "0123456789abcdef");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void Write(const std::string& name, const std::string& content) {
    std::ofstream(root_ / name, std::ios::binary) << content;
  }
  base::Status Check(const std::string& location) {
    OnnxWriter writer;
    writer.ExternalConstant("w", {4}, location).Node("Identity", {"w"}, {"y"});
    Write("model/1/model.onnx", writer.Serialize());
    return CheckOnnxFile((root_ / "model/1/model.onnx").string());
  }
  std::filesystem::path root_;
};

TEST_F(OnnxFileTest, ExternalDataInTheFolderIsFine) {
  EXPECT_EQ(Check("weights").ToString(), "OK");
  EXPECT_EQ(Check("./weights").ToString(), "OK");
  EXPECT_EQ(Check("sub/weights").ToString(), "OK");
  std::filesystem::create_symlink("sub/weights", root_ / "model/1/link");
  EXPECT_EQ(Check("link").ToString(), "OK");
}

TEST_F(OnnxFileTest, ExternalDataElsewhereIsRefused) {
  std::filesystem::create_symlink("../../secret", root_ / "model/1/link");
  std::filesystem::create_directory_symlink("../..", root_ / "model/1/up");
  for (const std::string& location :
       {std::string("../../secret"), std::string("sub/../../../secret"), (root_ / "secret").string(),
        std::string("link"), std::string("up/secret"), std::string("/etc/passwd"), std::string(""),
        std::string("sub"), std::string("."), std::string("weights\0x", 9)}) {
    const base::Status status = Check(location);
    EXPECT_EQ(status.code(), base::StatusCode::kInvalidArgument) << location << ": " << status.ToString();
    EXPECT_NE(status.message().find("model.onnx"), std::string::npos) << status.ToString();
  }
  EXPECT_EQ(Check("absent").code(), base::StatusCode::kNotFound);
}

}  // namespace
}  // namespace stoker::engines::internal
