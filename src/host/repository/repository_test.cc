// Aim: a folder of models becomes plain values as Triton reads it; what cannot be served is refused with
// file, line and field; nothing outside the model's folder can be named. Method: small repositories on disk
// and an engine that only describes.
#include "repository/repository.h"

#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include <stoker/base/json.h>

#include "repository/config_text.h"
#include "repository/config_values.h"
#include "repository/folder_files.h"

namespace stoker::host {
namespace {

namespace fs = std::filesystem;

/// Serves "described" (it knows the tensors of every file) and "plain" (it takes any tensors).
class DescribingEngine final : public engines::Engine {
 public:
  std::string_view name() const override { return "describing"; }
  bool Serves(std::string_view backend, std::string_view) const override {
    return backend == "described" || backend == "plain" || backend == "other";
  }
  std::span<const std::string_view> default_filenames() const override { return kFiles; }
  std::string_view backend_for(std::string_view filename) const override {
    return filename.ends_with(".net") ? "described" : "";
  }
  std::span<const std::string_view> parameters() const override { return kParameters; }
  base::Result<engines::ModelDescription> Describe(const engines::ModelSpec& spec) override {
    if (spec.backend == "plain") return engines::ModelDescription{};
    return description;
  }
  base::Result<std::unique_ptr<engines::EngineModel>> Load(const engines::ModelSpec&) override {
    return base::Unimplemented("this engine only describes");
  }

  engines::ModelDescription description;

 private:
  static constexpr std::string_view kFiles[] = {"model.net"};
  static constexpr std::string_view kParameters[] = {"KNOWN", "stoker.of_the_engine"};
};

class OneEngine final : public EngineSet {
 public:
  explicit OneEngine(engines::Engine* engine) : engine_(engine) {}
  base::Result<engines::Engine*> ForConfig(std::string_view backend, std::string_view platform) override {
    if (engine_->Serves(backend, platform)) return engine_;
    return base::NotFound("no such engine");
  }
  std::span<engines::Engine* const> all() override { return {&engine_, 1}; }

 private:
  engines::Engine* engine_;
};

class RepositoryTest : public ::testing::Test {
 protected:
  RepositoryTest() {
    std::string pattern = ::testing::TempDir() + "stoker-repository-XXXXXX";
    root_ = mkdtemp(pattern.data());
    engine_.description.inputs = {{.name = "x", .type = tensor::DataType::kFp32, .dims = {-1, 3}}};
    engine_.description.outputs = {{.name = "y", .type = tensor::DataType::kFp32, .dims = {-1, 2}}};
    engine_.description.batchable = true;
  }
  ~RepositoryTest() override { fs::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  void Model(const std::string& config, const std::string& file = "model.net") {
    Write("m/1/" + file, "net");
    if (!config.empty()) Write("m/config.pbtxt", config);
  }
  base::Result<ModelDefinition> Read(const ModelOverrides& overrides = {}) {
    HostOptions options = options_;
    options.repositories = {root_.string()};
    const auto source = MakeFolderSource(options, &engines_);
    auto listing = source->Look("m");
    if (!listing.ok()) return listing.status();
    return source->Read(*listing, overrides);
  }
  std::string ErrorOf(const std::string& config) {
    Model(config);
    const auto definition = Read();
    return definition.ok() ? "no error" : definition.status().message();
  }

  fs::path root_;
  HostOptions options_;
  DescribingEngine engine_;
  OneEngine engines_{&engine_};
};

constexpr const char* kPlain =
    "backend: \"plain\"\nmax_batch_size: 4\n"
    "input [ { name: \"x\" data_type: TYPE_FP32 dims: [ 3 ] } ]\n"
    "output [ { name: \"y\" data_type: TYPE_FP32 dims: [ 2 ] } ]\n";

TEST_F(RepositoryTest, CompletesWhatAFolderLeavesOut) {
  Model("");
  const auto definition = Read();
  ASSERT_TRUE(definition.ok()) << definition.status().message();
  const ModelConfig& config = definition->config;
  EXPECT_EQ(config.backend, "described");
  EXPECT_EQ(config.default_model_filename, "model.net");
  EXPECT_EQ(config.max_batch_size, 4);
  EXPECT_TRUE(config.has_dynamic_batching);
  EXPECT_TRUE(config.dynamic_batching.sizes_by_default);
  EXPECT_EQ(config.instance_count, 0);
  ASSERT_EQ(config.inputs.size(), 1u);
  EXPECT_EQ(config.inputs[0].dims, (tensor::Shape{3}));
  const auto json = base::JsonValue::Parse(config.json);
  ASSERT_TRUE(json.ok());
  EXPECT_EQ(json->Find("max_batch_size")->integer(), 4);
  EXPECT_EQ(json->Find("instance_group")->array()[0].Find("name")->string(), "m");
}

TEST_F(RepositoryTest, KeepsTheBackendThatIsConfigured) {
  Model("backend: \"other\"\n");
  const auto definition = Read();
  ASSERT_TRUE(definition.ok()) << definition.status().message();
  EXPECT_EQ(definition->config.backend, "other");
  EXPECT_EQ(definition->config.default_model_filename, "model.net");
}

TEST_F(RepositoryTest, GivesScalarsOneElement) {
  engine_.description.batchable = false;
  engine_.description.inputs[0].dims = {};
  Model("");
  const auto definition = Read();
  ASSERT_TRUE(definition.ok()) << definition.status().message();
  EXPECT_EQ(definition->config.inputs[0].dims, (tensor::Shape{1}));
  EXPECT_TRUE(definition->config.inputs[0].has_reshape);
  EXPECT_EQ(definition->config.inputs[0].reshape.rank(), 0u);
  const std::string json = definition->config.json;
  EXPECT_TRUE(Read({&json, nullptr}).ok()) << "the completed configuration can be given back";
  const std::string error = ErrorOf(
      "backend: \"plain\"\ninput [ { name: \"x\" data_type: TYPE_FP32 dims: [ 1 ] reshape { } } ]\n"
      "output [ { name: \"y\" data_type: TYPE_FP32 dims: [ 1 ] } ]");
  EXPECT_NE(error.find("config.pbtxt:2: input[0]: cannot have an empty reshape"), std::string::npos) << error;
}

TEST_F(RepositoryTest, SaysHowShapesDisagree) {
  const std::string listed_batch =
      ErrorOf("backend: \"described\"\nmax_batch_size: 8\ninput [ { name: \"x\" dims: [ -1, 3 ] } ]\n");
  EXPECT_NE(listed_batch.find("config.pbtxt:3"), std::string::npos) << listed_batch;
  EXPECT_NE(listed_batch.find("must be left out of dims"), std::string::npos) << listed_batch;
  const std::string unlisted =
      ErrorOf("backend: \"described\"\ninput [ { name: \"x\" data_type: TYPE_FP32 dims: [ 3 ] } ]\n");
  EXPECT_NE(unlisted.find("with max_batch_size 0"), std::string::npos) << unlisted;
  const std::string type = ErrorOf(
      "backend: \"described\"\nmax_batch_size: 8\ninput [ { name: \"x\" data_type: TYPE_INT8 dims: [ 3 ] } "
      "]\n");
  EXPECT_NE(type.find("TYPE_INT8"), std::string::npos) << type;
  const std::string name = ErrorOf(
      "backend: \"described\"\nmax_batch_size: 8\ninput [ { name: \"z\" data_type: TYPE_FP32 dims: [ 3 ] } "
      "]\n");
  EXPECT_NE(name.find("has no input \"z\", it has x"), std::string::npos) << name;
}

TEST_F(RepositoryTest, RefusesInstancesOnGpus) {
  const auto with = [](const std::string& group) {
    return std::string(kPlain) + "instance_group [ { " + group + " } ]";
  };
  const std::string where = "config.pbtxt:5: instance_group[0]: ";
  const std::string kind = ErrorOf(with("kind: KIND_GPU"));
  EXPECT_NE(kind.find(where + "has kind KIND_GPU but no GPUs are available"), std::string::npos) << kind;
  for (const char* group : {"kind: KIND_CPU gpus: [ 0 ]", "gpus: [ 0 ]"}) {
    const std::string error = ErrorOf(with(group));
    EXPECT_NE(error.find(where + "has kind KIND_CPU but specifies one or more GPUs"), std::string::npos)
        << error;
  }
  Model(with("kind: KIND_MODEL gpus: [ 0 ]"));
  const auto definition = Read();
  ASSERT_TRUE(definition.ok()) << definition.status().message();
  EXPECT_EQ(definition->config.warnings.size(), 1u);
}

struct Refusal {
  const char* text;   // appended to kPlain
  const char* field;  // named by the error
  int line;
};

TEST_F(RepositoryTest, RefusesFeaturesByFieldAndLine) {
  const Refusal refusals[] = {
      {"sequence_batching { }", "sequence_batching", 5},
      {"ensemble_scheduling { step [ { model_name: \"a\" model_version: -1 } ] }", "ensemble_scheduling", 5},
      {"response_cache { enable: true }", "response_cache", 5},
      {"model_transaction_policy { decoupled: true }", "model_transaction_policy", 5},
      {"instance_group [\n { rate_limiter { resources [ { name: \"r\" count: 1 } ] } } ]",
       "instance_group[0].rate_limiter", 6},
      {"model_repository_agents { agents [ { name: \"a\" } ] }", "model_repository_agents", 5},
      {"model_operations { op_library_filename: \"x.so\" }", "model_operations", 5},
      {"cc_model_filenames { key: \"7.0\" value: \"x\" }", "cc_model_filenames", 5},
  };
  for (const auto& refusal : refusals) {
    const std::string error = ErrorOf(std::string(kPlain) + refusal.text);
    const std::string where = "config.pbtxt:" + std::to_string(refusal.line) + ": " + refusal.field;
    EXPECT_NE(error.find(where), std::string::npos) << error;
    EXPECT_NE(error.find("not supported"), std::string::npos) << error;
  }
}

TEST_F(RepositoryTest, RefusesBrokenRules) {
  const Refusal refusals[] = {
      {"dynamic_batching { preferred_batch_size: [ 8 ] }", "preferred_batch_size", 0},
      {"dynamic_batching { priority_levels: 2 }", "default_priority_level", 0},
      {"dynamic_batching { priority_levels: 2 default_priority_level: 1 preserve_ordering: true }",
       "preserve_ordering", 0},
      {"dynamic_batching { priority_levels: 2 default_priority_level: 1 priority_queue_policy { key: 3 value "
       "{ } } }",
       "priority_queue_policy", 0},
      {"version_policy { specific { versions: [ 0 ] } }", "version_policy", 0},
      {"default_model_filename: \"../model.net\"", "default_model_filename", 0},
      {"default_model_filename: \"/etc/passwd\"", "default_model_filename", 0},
      {"name: \"else\"", "directory name must equal model name", 0},
      {"no_such_field: 1", "no_such_field", 0},
      {"batch_input [ { kind: BATCH_ELEMENT_COUNT target_name: \"t\" data_type: TYPE_FP32 source_input: "
       "\"q\" } ]",
       "batch_input[0]", 0},
      {"model_warmup [ { name: \"w\" batch_size: 9 } ]", "model_warmup[0]", 0},
  };
  for (const auto& refusal : refusals) {
    const std::string error = ErrorOf(std::string(kPlain) + refusal.text);
    EXPECT_NE(error.find(refusal.field), std::string::npos) << refusal.text << " gave " << error;
  }
}

TEST_F(RepositoryTest, RefusesOwnParametersThatNobodyKnows) {
  const auto with = [](const std::string& key) {
    return std::string(kPlain) + "parameters { key: \"" + key + "\" value { string_value: \"true\" } }";
  };
  const std::string error = ErrorOf(with("stoker.look_past_shape"));
  EXPECT_NE(error.find("config.pbtxt:5: parameters: \"stoker.look_past_shape\" is unknown"),
            std::string::npos)
      << error;
  EXPECT_NE(error.find("stoker.look_past_shapes"), std::string::npos) << error;
  EXPECT_NE(error.find("stoker.of_the_engine"), std::string::npos) << error;

  for (const std::string key : {"stoker.look_past_shapes", "stoker.of_the_engine", "KNOWN", "OTHER"}) {
    Model(with(key));
    const auto definition = Read();
    ASSERT_TRUE(definition.ok()) << definition.status().message();
    const auto& warnings = definition->config.warnings;
    ASSERT_EQ(warnings.size(), key == "OTHER" ? 1u : 0u) << key;
    for (const auto& warning : warnings) EXPECT_NE(warning.find("OTHER"), std::string::npos) << warning;
  }
}

TEST_F(RepositoryTest, LabelsStayInsideTheFolder) {
  Write("secret.txt", "secret\n");
  const std::string config =
      "backend: \"plain\"\ninput [ { name: \"x\" data_type: TYPE_FP32 dims: [ 3 ] } ]\n"
      "output [ { name: \"y\" data_type: TYPE_FP32 dims: [ 2 ] label_filename: \"";
  EXPECT_NE(ErrorOf(config + "../secret.txt\" } ]").find("label_filename"), std::string::npos);
  Write("m/labels.txt", "cat\r\ndog\n");
  Model(config + "labels.txt\" } ]");
  const auto definition = Read();
  ASSERT_TRUE(definition.ok()) << definition.status().message();
  EXPECT_EQ(definition->labels[0], (std::vector<std::string>{"cat", "dog"}));
}

TEST_F(RepositoryTest, PicksVersionsByPolicy) {
  for (const char* version : {"1", "2", "10", "3x", "007", "0"})
    Write(std::string("m/") + version + "/model.net", "n");
  const auto versions = [this](const std::string& policy) {
    Write("m/config.pbtxt", kPlain + policy);
    std::vector<int64_t> out;
    const auto definition = Read();
    EXPECT_TRUE(definition.ok()) << definition.status().message();
    if (definition.ok()) {
      for (const auto& version : definition->versions) out.push_back(version.version);
    }
    return out;
  };
  EXPECT_EQ(versions(""), (std::vector<int64_t>{10}));
  EXPECT_EQ(versions("version_policy { latest { num_versions: 2 } }"), (std::vector<int64_t>{2, 10}));
  EXPECT_EQ(versions("version_policy { all { } }"), (std::vector<int64_t>{1, 2, 10}));
  EXPECT_EQ(versions("version_policy { specific { versions: [ 1, 5 ] } }"), (std::vector<int64_t>{1}));
  EXPECT_EQ(versions("version_policy { latest { num_versions: 0 } }"), std::vector<int64_t>());
}

TEST_F(RepositoryTest, OverridesReplaceTheVersionsAndStayConfined) {
  Model(kPlain);
  const std::string json = R"({"backend":"plain","input":[{"name":"x","data_type":"TYPE_FP32","dims":[3]}],)"
                           R"("output":[{"name":"y","data_type":"TYPE_FP32","dims":["2"]}]})";
  std::vector<std::pair<std::string, base::Bytes>> files = {{"file:7/model.net", base::Bytes::Own("new")}};
  std::string folder;
  {
    const auto definition = Read({&json, &files});
    ASSERT_TRUE(definition.ok()) << definition.status().message();
    ASSERT_EQ(definition->versions.size(), 1u);
    EXPECT_EQ(definition->versions[0].version, 7);
    folder = definition->versions[0].path;
    EXPECT_EQ(*ReadFile(folder + "/model.net", 100), "new");
  }
  EXPECT_FALSE(fs::exists(folder));
  EXPECT_FALSE(Read({nullptr, &files}).ok());
  for (const char* bad : {"file:../x", "file:1/../../x", "file:/etc/x", "file:1//x", "file:", "file:1/./x"}) {
    files[0].first = bad;
    EXPECT_FALSE(Read({&json, &files}).ok()) << bad;
  }
  files[0].first = std::string("file:1/a\0b", 10);
  EXPECT_FALSE(Read({&json, &files}).ok());
  const std::string broken = "{\"backend\":";
  EXPECT_NE(Read({&broken, nullptr}).status().message().find("config"), std::string::npos);
}

TEST_F(RepositoryTest, AModelOfOverridesAloneReadsNothingElse) {
  const fs::path before = fs::current_path();
  Write("labels.txt", "secret");
  fs::current_path(root_);
  HostOptions options;
  options.repositories = {root_.string()};
  const auto source = MakeFolderSource(options, &engines_);
  const std::string config =
      R"({"backend":"plain","max_batch_size":4,"input":[{"name":"x","data_type":"TYPE_FP32","dims":[3]}],)"
      R"("output":[{"name":"y","data_type":"TYPE_FP32","dims":[2],"label_filename":"labels.txt"}]})";
  std::vector<std::pair<std::string, base::Bytes>> files = {{"file:1/model.net", base::Bytes::Own("net")}};
  const ModelListing fresh{.name = "fresh", .folder = "", .fingerprint = "", .problem = {}};
  const auto without = source->Read(fresh, {.config_json = &config, .files = &files});
  files.emplace_back("file:labels.txt", base::Bytes::Own("cat\ndog"));
  const auto with = source->Read(fresh, {.config_json = &config, .files = &files});
  fs::current_path(before);
  EXPECT_FALSE(without.ok());
  ASSERT_TRUE(with.ok()) << with.status().ToString();
  EXPECT_EQ(with->labels[0], (std::vector<std::string>{"cat", "dog"}));
}

TEST_F(RepositoryTest, FingerprintsFollowFiles) {
  Model(kPlain);
  const auto first = Read();
  const auto again = Read();
  ASSERT_TRUE(first.ok() && again.ok());
  EXPECT_EQ(first->listing_fingerprint, again->listing_fingerprint);
  Write("m/1/__pycache__/x.pyc", "x");
  Write("m/1/.hidden", "x");
  EXPECT_EQ(Read()->listing_fingerprint, first->listing_fingerprint);
  Write("m/1/model.net", "another net");
  const auto changed = Read();
  EXPECT_NE(changed->listing_fingerprint, first->listing_fingerprint);
  EXPECT_NE(changed->versions[0].fingerprint, first->versions[0].fingerprint);
  EXPECT_EQ(changed->config_fingerprint, first->config_fingerprint);
  Write("m/config.pbtxt", std::string(kPlain) + "instance_group [ { count: 3 } ]");
  EXPECT_EQ(Read()->config_fingerprint, first->config_fingerprint);
}

TEST_F(RepositoryTest, NamesBothPlacesOfAModelThatIsTwice) {
  Model(kPlain);
  Write("second/m/config.pbtxt", kPlain);
  HostOptions options;
  options.repositories = {root_.string(), (root_ / "second").string()};
  const auto source = MakeFolderSource(options, &engines_);
  const auto listings = source->Scan();
  ASSERT_TRUE(listings.ok());
  for (const auto& listing : *listings) {
    if (listing.name != "m") continue;
    EXPECT_NE(listing.problem.message().find("second/m"), std::string::npos);
  }
  EXPECT_FALSE(source->Look("../m").ok());
  EXPECT_FALSE(source->Look("").ok());
}

TEST(InnerPathTest, RefusesEveryWayOut) {
  for (const char* good : {"a", "a/b", "a..b", "..a"}) EXPECT_TRUE(IsInnerPath(good)) << good;
  for (const char* bad : {"", "/", "/a", "..", "../a", "a/..", "a/../b", "a//b", "./a", "a/", "a/."}) {
    EXPECT_FALSE(IsInnerPath(bad)) << bad;
  }
}

TEST(ConfigTextTest, NestingAndSizeAreBounded) {
  std::string deep;
  for (int i = 0; i < 2000; ++i) deep += "version_policy { ";
  EXPECT_FALSE(ParseConfigText("c", deep).ok());
  EXPECT_FALSE(ParseConfigText("c", std::string((4 << 20) + 1, ' ')).ok());
  EXPECT_TRUE(ParseConfigText("c", "").ok());
}

}  // namespace
}  // namespace stoker::host
