// Aim: start scripts written for Triton run unedited, and nothing is taken silently that does nothing.
// Method: argument lists and what they must come to.
#include "serve_options.h"

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <set>

#include <gtest/gtest.h>

#include "option_table.h"

namespace stoker::apps {
namespace {

base::Result<ServeOptions> Parse(std::vector<std::string> arguments) { return ParseServeOptions(arguments); }

std::string ErrorOf(const std::vector<std::string>& arguments) {
  const auto options = Parse(arguments);
  EXPECT_FALSE(options.ok());
  EXPECT_EQ(options.status().code(), base::StatusCode::kInvalidArgument);
  return options.status().message();
}

TEST(ServeOptionsTest, AFolderThatIsOneModelMayEndInASlash) {
  std::string pattern = ::testing::TempDir() + "stoker-options-XXXXXX";
  const std::filesystem::path folder = mkdtemp(pattern.data());
  std::ofstream(folder / "saved_model.pb") << "graph";
  for (const char* end : {"", "/", "//"}) {
    const auto options = Parse({folder.string() + end});
    ASSERT_TRUE(options.ok()) << options.status().message();
    EXPECT_EQ(options->host.single_model_file, folder.string());
  }
  std::filesystem::remove_all(folder);
}

TEST(ServeOptionsTest, TakesTritonsSpellings) {
  const auto options =
      Parse({"--model-repository=/a", "--model-repository", "/b", "--http-port", "9000", "--grpc-port=9001",
             "--model-control-mode=explicit", "--load-model=x", "--load-model", "y", "--exit-on-error=false",
             "--strict-readiness=0", "--backend-config=onnxruntime,default-max-batch-size=8",
             "--backend-config=default-max-batch-size=16", "--log-verbose=1", "--metrics-port=9002",
             "--exit-timeout-secs=5", "--grpc-infer-response-compression-level=low"});
  ASSERT_TRUE(options.ok()) << options.status().message();
  EXPECT_EQ(options->host.repositories, (std::vector<std::string>{"/a", "/b"}));
  EXPECT_EQ(options->http.port, 9000);
  EXPECT_EQ(options->grpc.port, 9001);
  EXPECT_EQ(options->metrics.port, 9002);
  EXPECT_EQ(options->host.control_mode, host::ControlMode::kExplicit);
  EXPECT_EQ(options->host.startup_models, (std::vector<std::string>{"x", "y"}));
  EXPECT_FALSE(options->host.exit_on_error);
  EXPECT_FALSE(options->host.strict_readiness);
  EXPECT_EQ(options->host.backend_config.at("onnxruntime").at("default-max-batch-size"), "8");
  EXPECT_EQ(options->host.backend_config.at("").at("default-max-batch-size"), "16");
  EXPECT_EQ(options->exit_timeout_s, 5);
  EXPECT_TRUE(options->grpc.gzip_responses);
  EXPECT_EQ(options->http.address, "0.0.0.0");
  EXPECT_TRUE(options->warnings.empty());
}

TEST(ServeOptionsTest, ShortFormStaysOnThisMachine) {
  const auto options = Parse({"/tmp"});
  ASSERT_TRUE(options.ok()) << options.status().message();
  EXPECT_EQ(options->http.address, "127.0.0.1");
  EXPECT_EQ(options->grpc.address, "127.0.0.1");
  const auto open = Parse({"/tmp", "--http-address=0.0.0.0"});
  ASSERT_TRUE(open.ok());
  EXPECT_EQ(open->http.address, "0.0.0.0");
  EXPECT_EQ(open->metrics.address, "0.0.0.0");
  EXPECT_EQ(open->grpc.address, "127.0.0.1");
}

TEST(ServeOptionsTest, WarnsOfWhatHasNoEffect) {
  const auto options =
      Parse({"/tmp", "--pinned-memory-pool-byte-size=268435456", "--allow-gpu-metrics", "false"});
  ASSERT_TRUE(options.ok());
  ASSERT_EQ(options->warnings.size(), 2u);
  EXPECT_NE(options->warnings[0].find("--pinned-memory-pool-byte-size"), std::string::npos);
}

TEST(ServeOptionsTest, MetricsConfig) {
  const auto options =
      Parse({"/tmp", "--metrics-config", "counter_latencies=false",
             "--metrics-config=summary_latencies=false", "--metrics-config=summary_quantiles=0.5:0.05"});
  ASSERT_TRUE(options.ok()) << options.status().message();
  EXPECT_FALSE(options->host.latency_counters);
  ASSERT_EQ(options->warnings.size(), 1u);
  EXPECT_NE(options->warnings[0].find("summary_quantiles"), std::string::npos);
  EXPECT_TRUE(Parse({"/tmp"})->host.latency_counters);
  EXPECT_NE(ErrorOf({"/tmp", "--metrics-config=summary_latencies=true"}).find("summary_latencies"),
            std::string::npos);
  EXPECT_NE(ErrorOf({"/tmp", "--metrics-config=counter_latencies=maybe"}).find("maybe"), std::string::npos);
  EXPECT_NE(ErrorOf({"/tmp", "--metrics-config=counters"}).find("counters"), std::string::npos);
}

TEST(ServeOptionsTest, RefusesByName) {
  EXPECT_NE(ErrorOf({"/tmp", "--grpc-use-ssl=true"}).find("--grpc-use-ssl"), std::string::npos);
  EXPECT_NE(ErrorOf({"/tmp", "--http-restricted-api=model-repository:k=v"}).find("--http-restricted-api"),
            std::string::npos);
  EXPECT_TRUE(Parse({"/tmp", "--grpc-use-ssl=false", "--rate-limit=off", "--allow-sagemaker=0"}).ok());
}

TEST(ServeOptionsTest, RefusesMistakes) {
  EXPECT_NE(ErrorOf({"/tmp", "--http-prot=1"}).find("unknown option --http-prot"), std::string::npos);
  EXPECT_NE(ErrorOf({"/tmp", "-p"}).find("-p"), std::string::npos);
  EXPECT_NE(ErrorOf({"/tmp", "--http-port"}).find("wants a value"), std::string::npos);
  EXPECT_NE(ErrorOf({"/tmp", "--http-port=70000"}).find("70000"), std::string::npos);
  EXPECT_NE(ErrorOf({"/tmp", "--http-port=80a"}).find("80a"), std::string::npos);
  EXPECT_NE(ErrorOf({"/tmp", "--exit-on-error=maybe"}).find("maybe"), std::string::npos);
  EXPECT_NE(ErrorOf({"/nonexistent/model.onnx"}).find("/nonexistent/model.onnx"), std::string::npos);
  EXPECT_NE(ErrorOf({}).find("nothing to serve"), std::string::npos);
  EXPECT_NE(ErrorOf({"/tmp", "--load-model=x"}).find("--model-control-mode=explicit"), std::string::npos);
}

TEST(ServeOptionsTest, EveryOptionIsNamedOnceAndHelped) {
  std::set<std::string_view> names;
  const std::string help = ServeHelp();
  for (const auto& row : OptionTable()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_NE(help.find("--" + std::string(row.name)), std::string::npos);
  }
}

}  // namespace
}  // namespace stoker::apps
