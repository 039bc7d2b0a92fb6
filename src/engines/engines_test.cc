// The registry: which engine serves which of Triton's names, and what a module that cannot be opened says.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include <stoker/engines/engine_module.h>
#include <stoker/engines/engines.h>

namespace stoker::engines {
namespace {

std::string NameFor(const std::string& backend, const std::string& platform) {
  static const auto engines = MakeEngines();
  Engine* const engine = FindEngine(engines, backend, platform);
  return engine == nullptr ? "" : std::string(engine->name());
}

TEST(EnginesTest, TritonsNamesFindTheirEngine) {
  EXPECT_EQ(NameFor("identity", ""), "identity");
  EXPECT_EQ(NameFor("stoker_fake", ""), "stoker_fake");
  EXPECT_EQ(NameFor("openvino", ""), "openvino");
  EXPECT_EQ(NameFor("onnxruntime", "onnxruntime_onnx"), "openvino");
  EXPECT_EQ(NameFor("", "onnxruntime_onnx"), "openvino");
  EXPECT_EQ(NameFor("", "tensorflow_savedmodel"), "openvino");
  EXPECT_EQ(NameFor("tensorflow", ""), "openvino");
  EXPECT_EQ(NameFor("python", ""), "");
  EXPECT_EQ(NameFor("python", "onnxruntime_onnx"), "");
  EXPECT_EQ(NameFor("", "ensemble"), "");
  EXPECT_EQ(NameFor("", ""), "");
}

TEST(EnginesTest, BackendOfAFile) {
  const auto engines = MakeEngines();
  Engine* const engine = FindEngine(engines, "openvino", "");
  ASSERT_NE(engine, nullptr);
  EXPECT_EQ(engine->backend_for("model.onnx"), "onnxruntime");
  EXPECT_EQ(engine->backend_for("model.xml"), "openvino");
  EXPECT_EQ(engine->backend_for("model.savedmodel"), "tensorflow");
  for (const std::string_view file : engine->default_filenames()) {
    EXPECT_NE(FindEngine(engines, engine->backend_for(file), ""), nullptr) << file;
  }
}

class ModuleTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "stoker-module-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string folder_;
};

TEST_F(ModuleTest, FileThatIsNoModuleIsRefusedWithTheReason) {
  std::ofstream(folder_ + "/libstoker_openvino.so") << "not a library";
  const auto engines = MakeEngines({.module_folders = {folder_}, .sleep_ns = {}});
  Engine* const engine = FindEngine(engines, "openvino", "");
  ModelSpec spec;
  spec.name = "m";
  const auto loaded = engine->Load(spec);
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.status().code(), base::StatusCode::kUnavailable);
  EXPECT_NE(loaded.status().message().find(folder_), std::string::npos) << loaded.status().message();
  EXPECT_NE(loaded.status().message().find("Python package openvino"), std::string::npos)
      << loaded.status().message();
}

TEST_F(ModuleTest, ModuleOfAnotherVersionIsRefusedUnused) {
  const auto engines = MakeEngines({.module_folders = {STOKER_WRONG_MODULE_FOLDER}, .sleep_ns = {}});
  ModelSpec spec;
  spec.name = "m";
  const auto loaded = FindEngine(engines, "openvino", "")->Load(spec);
  ASSERT_FALSE(loaded.ok());
  EXPECT_NE(loaded.status().message().find("another version of Stoker (interface 1"), std::string::npos)
      << loaded.status().message();
}

TEST(EngineAbiTest, DependsOnWhatCrossesTheBorder) { EXPECT_NE(EngineAbi(), kEngineAbiVersion); }

}  // namespace
}  // namespace stoker::engines
