#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <stoker/base/mutex.h>
#include <stoker/base/str_cat.h>
#include <stoker/net/http_server.h>

#include "raw_client.h"

namespace stoker::net::testing {

inline HttpResponse Text(std::string text, int status = 200) {
  HttpResponse response;
  response.status = status;
  response.content_type = "text/plain";
  response.body.push_back(base::Bytes::Own(std::move(text)));
  return response;
}

/// The request as the handler sees it.
inline std::string Describe(const HttpRequest& request) {
  std::string text = base::StrCat(static_cast<int>(request.method), " ", request.path, " ", request.query,
                                  " 1.", request.minor_version, " ", request.has_length, "\n");
  for (const HttpHeader& header : request.headers)
    base::StrAppend(&text, header.name, "=", header.value, "\n");
  return text.append(request.body.text());
}

/// A server on two loops, and ways to wait for what it has seen.
class HttpServerFixture : public ::testing::Test {
 protected:
  void Start(HttpServerOptions options, HttpServer::Handler handler) {
    options.port = 0;
    auto server = HttpServer::Listen(options, loops_.get(), std::move(handler));
    ASSERT_TRUE(server.ok()) << server.status().ToString();
    server_ = std::move(server).value();
  }
  void StartEcho(HttpServerOptions options = {}) {
    Start(std::move(options),
          [](HttpRequest request, HttpResponder responder) { responder.Send(Text(Describe(request))); });
  }
  // Keeps all responders until the test answers.
  void StartHolding(HttpServerOptions options = {}) {
    Start(std::move(options), [this](HttpRequest request, HttpResponder responder) {
      held_.With([&](auto& held) { held.emplace_back(std::move(request), std::move(responder)); });
    });
  }
  size_t HeldCount() {
    return held_.With([](auto& held) { return held.size(); });
  }
  void AwaitHeld(size_t count) {
    while (HeldCount() < count) std::this_thread::yield();
  }
  std::vector<std::pair<HttpRequest, HttpResponder>> TakeHeld() {
    return held_.With([](auto& held) { return std::exchange(held, {}); });
  }
  void AwaitBytesIn(uint64_t count) {
    while (server_->counters().bytes_in < count) std::this_thread::yield();
  }
  void AwaitConnections(size_t count) {
    while (server_->open_connections() != count) std::this_thread::yield();
  }
  // Sends `raw` cut at `cuts`; each piece is read by the server before the next one is sent.
  bool SendInPieces(RawClient& client, std::string_view raw, const std::vector<size_t>& cuts) {
    const uint64_t before = server_->counters().bytes_in;
    size_t at = 0;
    for (const size_t cut : cuts) {
      if (cut <= at || cut >= raw.size()) continue;
      if (!client.Send(raw.substr(at, cut - at))) return false;
      at = cut;
      AwaitBytesIn(before + at);
    }
    return client.Send(raw.substr(at));
  }

  std::unique_ptr<EventLoops> loops_ = std::move(EventLoops::Start(2)).value();
  base::Guarded<std::vector<std::pair<HttpRequest, HttpResponder>>> held_;
  std::unique_ptr<HttpServer> server_;
};

inline const std::string kGet = "GET /a/b?c=d HTTP/1.1\r\nHost: h\r\n\r\n";
inline const std::string kPost = "POST /p HTTP/1.1\r\nHost: h\r\nContent-Length: 11\r\n\r\nhello world";
inline const std::string kChunked =
    "POST /c HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n6;x=y\r\nhello \r\n5\r\nworld\r\n0\r\nT: "
    "v\r\n\r\n";

}  // namespace stoker::net::testing
