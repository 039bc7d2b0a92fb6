// Aim: the calls that look and the calls that change answer as the protocol says. Method: messages against
// a fake host, answers read by protobuf.
#include "grpc/control.h"

#include <string>

#include <gtest/gtest.h>
#include <inference.pb.h>

#include <stoker/observe/log.h>

#include "grpc/information.h"
#include "grpc/messages.h"
#include "testing/fake_host.h"
#include "testing/table_model.h"

namespace stoker::serve {
namespace {

using base::StatusCode;
using testing::FakeHost;
using testing::TableModel;

class ControlTest : public ::testing::Test {
 protected:
  void SetUp() override {
    host_.Serve("table", TableModel(4)
                             .Input("IN", tensor::DataType::kFp32, {-1, 3})
                             .Output("OUT", tensor::DataType::kBytes, {1})
                             .Ref());
    context_.host = &host_;
    context_.log = log_.get();
  }

  template <typename Response, typename Request>
  base::Result<Response> Ask(GrpcMethod method, const Request& request) {
    STOKER_ASSIGN_OR_RETURN(const std::string bytes,
                            AnswerInformation(context_, {}, method, request.SerializeAsString()));
    Response response;
    EXPECT_TRUE(response.ParseFromString(bytes));
    return response;
  }

  base::Status Load(const wire::RepositoryModelRequest& request) {
    base::Status status = base::Internal("no reply");
    LoadModelByGrpc(context_, {}, request.SerializeAsString(),
                    [&status](const base::Result<std::string>& reply) {
                      status = reply.ok() ? base::OkStatus() : reply.status();
                    });
    return status;
  }

  FakeHost host_;
  std::unique_ptr<observe::Log> log_ = observe::Log::ToFunction({}, [](std::string_view) {});
  DoorContext context_;
};

wire::ModelRequest Named(std::string name, std::string version = "") {
  wire::ModelRequest request;
  request.set_name(std::move(name));
  request.set_version(std::move(version));
  return request;
}

TEST_F(ControlTest, Readiness) {
  EXPECT_TRUE(Ask<wire::Flag>(GrpcMethod::kServerReady, wire::ModelRequest())->value());
  EXPECT_TRUE(Ask<wire::Flag>(GrpcMethod::kModelReady, Named("table"))->value());
  EXPECT_FALSE(Ask<wire::Flag>(GrpcMethod::kModelReady, Named("nobody"))->value());
  const auto negative = Ask<wire::Flag>(GrpcMethod::kModelReady, Named("table", "-1"));
  ASSERT_FALSE(negative.ok());
  EXPECT_EQ(negative.status().message(),
            "invalid model version specified '-1' , version should be an integral value > 0");
  host_.ready_now = false;
  const auto health = Ask<wire::HealthCheckResponse>(GrpcMethod::kHealthCheck, wire::ModelRequest());
  EXPECT_EQ(health->status(), wire::HealthCheckResponse::NOT_SERVING);
}

TEST_F(ControlTest, Metadata) {
  const auto server = Ask<wire::ServerMetadataResponse>(GrpcMethod::kServerMetadata, wire::ModelRequest());
  EXPECT_EQ(server->name(), "triton");
  EXPECT_GT(server->extensions_size(), 5);
  const auto model = Ask<wire::ModelMetadataResponse>(GrpcMethod::kModelMetadata, Named("table"));
  ASSERT_TRUE(model.ok());
  EXPECT_EQ(model->versions(0), "1");
  ASSERT_EQ(model->inputs(0).shape_size(), 3);
  EXPECT_EQ(model->inputs(0).shape(0), -1);
  EXPECT_EQ(model->outputs(0).datatype(), "BYTES");
  EXPECT_EQ(Ask<wire::ModelMetadataResponse>(GrpcMethod::kModelMetadata, Named("nobody")).status().code(),
            StatusCode::kNotFound);
}

TEST_F(ControlTest, StatisticsAndIndex) {
  const auto statistics = Ask<wire::ModelStatisticsResponse>(GrpcMethod::kModelStatistics, Named("table"));
  ASSERT_TRUE(statistics.ok());
  EXPECT_EQ(statistics->model_stats(0).inference_stats().success().ns(), 600u);
  EXPECT_EQ(statistics->model_stats(0).batch_stats(0).compute_output().count(), 5u);
  EXPECT_EQ(Ask<wire::ModelStatisticsResponse>(GrpcMethod::kModelStatistics, Named("nobody")).status().code(),
            StatusCode::kInvalidArgument);
  wire::RepositoryIndexRequest request;
  EXPECT_EQ(Ask<wire::RepositoryIndexResponse>(GrpcMethod::kRepositoryIndex, request)->models_size(), 2);
  request.set_ready(true);
  EXPECT_EQ(Ask<wire::RepositoryIndexResponse>(GrpcMethod::kRepositoryIndex, request)->models_size(), 1);
  request.set_repository_name("r");
  EXPECT_EQ(Ask<wire::RepositoryIndexResponse>(GrpcMethod::kRepositoryIndex, request).status().code(),
            StatusCode::kUnimplemented);
}

TEST_F(ControlTest, BrokenMessages) {
  const auto answer = AnswerInformation(context_, {}, GrpcMethod::kModelReady, "\xff\xff");
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.status().message(), "Unable to parse request");
}

TEST_F(ControlTest, Load) {
  wire::RepositoryModelRequest request;
  request.set_model_name("x");
  (*request.mutable_parameters())["config"].set_string_param("{}");
  (*request.mutable_parameters())["file:1/model.onnx"].set_bytes_param("bytes");
  EXPECT_TRUE(Load(request).ok());
  ASSERT_EQ(host_.loads.size(), 1u);
  EXPECT_EQ(host_.loads[0].model, "x");
  EXPECT_EQ(host_.loads[0].config_json, "{}");
  EXPECT_EQ(host_.loads[0].files.at(0).first, "file:1/model.onnx");
  EXPECT_EQ(host_.loads[0].files.at(0).second.text(), "bytes");
  (*request.mutable_parameters())["config"].set_bool_param(true);
  EXPECT_EQ(Load(request).code(), StatusCode::kInvalidArgument);
  request.clear_parameters();
  (*request.mutable_parameters())["file:1/m"].set_string_param("x");
  EXPECT_EQ(Load(request).code(), StatusCode::kInvalidArgument);
  request.clear_parameters();
  (*request.mutable_parameters())["colour"].set_string_param("x");
  EXPECT_EQ(Load(request).code(), StatusCode::kInvalidArgument);
  request.clear_parameters();
  request.set_repository_name("r");
  EXPECT_EQ(Load(request).code(), StatusCode::kUnimplemented);
  EXPECT_EQ(host_.loads.size(), 1u);
}

TEST_F(ControlTest, Unload) {
  wire::RepositoryModelRequest request;
  request.set_model_name("x");
  (*request.mutable_parameters())["unload_dependents"].set_bool_param(true);
  int replies = 0;
  const auto reply = [&replies](const base::Result<std::string>& answer) {
    replies += answer.ok() ? 1 : 100;
  };
  UnloadModelByGrpc(context_, request.SerializeAsString(), reply);
  EXPECT_EQ(replies, 1);
  EXPECT_EQ(host_.unloads.at(0), (std::pair<std::string, bool>("x", true)));
  (*request.mutable_parameters())["unload_dependents"].set_int64_param(1);
  UnloadModelByGrpc(context_, request.SerializeAsString(), reply);
  EXPECT_EQ(replies, 101);
}

TEST_F(ControlTest, LogSettings) {
  wire::LogSettings request, response;
  (*request.mutable_settings())["log_verbose_level"].set_uint32_param(3);
  (*request.mutable_settings())["log_info"].set_bool_param(false);
  (*request.mutable_settings())["log_format"].set_string_param("ISO8601");
  auto answer = AnswerLogSettings(context_, request.SerializeAsString());
  ASSERT_TRUE(answer.ok()) << answer.status().message();
  ASSERT_TRUE(response.ParseFromString(*answer));
  EXPECT_EQ(response.settings().at("log_verbose_level").uint32_param(), 3u);
  EXPECT_FALSE(response.settings().at("log_info").bool_param());
  EXPECT_EQ(response.settings().at("log_format").string_param(), "ISO8601");
  EXPECT_EQ(log_->settings().verbose_level, 3u);
  request.clear_settings();
  (*request.mutable_settings())["log_info"].set_string_param("no");
  EXPECT_EQ(AnswerLogSettings(context_, request.SerializeAsString()).status().code(),
            StatusCode::kInvalidArgument);
  request.clear_settings();
  (*request.mutable_settings())["log_file"].set_string_param("/tmp/x");
  EXPECT_EQ(AnswerLogSettings(context_, request.SerializeAsString()).status().code(),
            StatusCode::kUnimplemented);
}

TEST_F(ControlTest, LargeMessagesAreRefusedBeforeTheyAreParsed) {
  wire::RepositoryModelRequest load;
  load.set_model_name("m");
  for (size_t i = 0; i <= DoorOptions().parameters_max; ++i) {
    (*load.mutable_parameters())[base::StrCat("file:1/", i)].set_bytes_param("");
  }
  EXPECT_EQ(Load(load).code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(host_.loads.empty());
  load.mutable_parameters()->erase("file:1/0");
  EXPECT_TRUE(Load(load).ok());
  (*load.mutable_parameters())["file:1/1"].set_bytes_param(std::string(2 * kSmallMessageBytesMax, 'x'));
  EXPECT_TRUE(Load(load).ok());  // files are as large as they are

  wire::LogSettings settings;
  (*settings.mutable_settings())[std::string(kSmallMessageBytesMax, 'x')].set_bool_param(true);
  EXPECT_EQ(AnswerLogSettings(context_, settings.SerializeAsString()).status().code(),
            StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace stoker::serve
