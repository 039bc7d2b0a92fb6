// Aim: what the HTTP door bounds before it works for a client. Method: a door over a fake host behind a
// real server on the loopback, a plain socket as its client.
#include <stoker/serve/http_door.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>

#include <gtest/gtest.h>

#include <stoker/base/executor.h>
#include <stoker/base/str_cat.h>
#include <stoker/net/compression.h>
#include <stoker/net/http_server.h>
#include <stoker/observe/log.h>

#include "testing/fake_host.h"
#include "testing/table_model.h"

namespace stoker::serve {
namespace {

using base::StrCat;

class HttpDoorTest : public ::testing::Test {
 protected:
  void Open(DoorOptions options) {
    host_.Serve("table", testing::TableModel(0)
                             .Input("IN", tensor::DataType::kUint8, {-1})
                             .Output("OUT", tensor::DataType::kUint8, {-1})
                             .Ref());
    DoorContext context;
    context.host = &host_;
    context.executor = &executor_;
    context.log = log_.get();
    door_ = std::make_unique<HttpDoor>(context, std::move(options));
    auto loops = net::EventLoops::Start(1);
    ASSERT_TRUE(loops.ok());
    loops_ = std::move(*loops);
    net::HttpServerOptions http;
    http.port = 0;
    auto server = net::HttpServer::Listen(http, loops_.get(), [this](auto request, auto responder) {
      door_->Handle(std::move(request), std::move(responder));
    });
    ASSERT_TRUE(server.ok()) << server.status().ToString();
    server_ = std::move(*server);
  }
  void TearDown() override {
    server_.reset();
    loops_.reset();
    executor_.Shutdown();
    host_.submitted.clear();
    door_.reset();
  }

  /// Sends a POST on a connection of its own.
  int Send(std::string_view path, std::string_view body, std::string_view headers = "") {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(server_->port());
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    std::string_view left;
    const std::string text = StrCat("POST ", path, " HTTP/1.1\r\nHost: h\r\nConnection: close\r\n", headers,
                                    "Content-Length: ", body.size(), "\r\n\r\n", body);
    for (left = text; !left.empty();) {
      const ssize_t sent = send(fd, left.data(), left.size(), MSG_NOSIGNAL);
      if (sent <= 0) break;
      left.remove_prefix(static_cast<size_t>(sent));
    }
    return fd;
  }
  /// The whole answer.
  static std::string Read(int fd) {
    std::string answer;
    char piece[4096];
    for (ssize_t got = 0; (got = recv(fd, piece, sizeof(piece), 0)) > 0;)
      answer.append(piece, static_cast<size_t>(got));
    close(fd);
    return answer;
  }
  int SendPacked(size_t bytes) {
    const base::Bytes plain = base::Bytes::Own(std::string(bytes, 'x'));
    const base::Bytes packed = net::Compress(net::ContentCoding::kGzip, {&plain, 1});
    return Send("/v2/models/table/infer", packed.text(),
                "Content-Encoding: gzip\r\nInference-Header-Content-Length: 0\r\n");
  }
  /// Waits until everything that was sent before has been taken.
  void Settle() { Read(Send("/v2/repository/index", "")); }

  testing::FakeHost host_;
  std::unique_ptr<observe::Log> log_ = observe::Log::ToFunction({}, [](std::string_view) {});
  base::Executor executor_{{.name = "test", .threads = 1}};  // one: first come, first served
  std::unique_ptr<HttpDoor> door_;
  std::unique_ptr<net::EventLoops> loops_;
  std::unique_ptr<net::HttpServer> server_;
};

TEST_F(HttpDoorTest, UnpackedBodiesOfWaitingRequestsAreBoundedTogether) {
  DoorOptions options;
  options.unpacked_bytes_max = 100'000;
  Open(options);
  const int waiting = SendPacked(60'000);
  // The first one may still be on its way; whichever of the two comes second is refused.
  const int other = SendPacked(60'000);
  Settle();
  Settle();
  ASSERT_EQ(host_.submitted.size(), 1u);
  host_.Fail(0, base::Internal("done"));
  host_.submitted.clear();
  const std::string answers = Read(waiting) + Read(other);
  EXPECT_NE(answers.find("HTTP/1.1 503"), std::string::npos) << answers;
  EXPECT_NE(answers.find("decompressed request bodies"), std::string::npos) << answers;
  EXPECT_NE(answers.find("HTTP/1.1 500"), std::string::npos) << answers;
  // What the first one held is free again.
  const int third = SendPacked(60'000);
  Settle();
  Settle();
  ASSERT_EQ(host_.submitted.size(), 1u);
  host_.Fail(0, base::Internal("done"));
  EXPECT_NE(Read(third).find("HTTP/1.1 500"), std::string::npos);
}

TEST_F(HttpDoorTest, CallsThatSayLittleTakeSmallBodies) {
  Open({});
  const std::string large = StrCat("{\"ready\":", std::string(64 << 10, ' '), "true}");
  for (const char* path : {"/v2/repository/index", "/v2/repository/models/m/unload", "/v2/logging"}) {
    const std::string answer = Read(Send(path, large));
    EXPECT_NE(answer.find("HTTP/1.1 400"), std::string::npos) << path << ": " << answer;
    EXPECT_NE(answer.find("at most 65536"), std::string::npos) << path << ": " << answer;
  }
  EXPECT_TRUE(host_.unloads.empty());
  EXPECT_NE(Read(Send("/v2/repository/index", "{\"ready\":true}")).find("\"READY\""), std::string::npos);
}

TEST_F(HttpDoorTest, ManyTinyJsonValuesDoNotBecomeManyLargeOnes) {
  Open({});
  std::string body = "{\"parameters\":{\"config\":[0";
  for (int i = 0; i < 300'000; ++i) body += ",0";
  const std::string answer = Read(Send("/v2/repository/models/m/load", body + "]}}"));
  EXPECT_NE(answer.find("HTTP/1.1 500"), std::string::npos) << answer;
  EXPECT_NE(answer.find("values; send fewer"), std::string::npos) << answer;
  EXPECT_TRUE(host_.loads.empty());
}

}  // namespace
}  // namespace stoker::serve
