// Aim: how connections end, wait and stream: timeouts, clients that leave, streamed answers, bounds
// of memory, drain, shutdown. Method: as in http_server_test.cc. Small time limits are injected;
// nothing asserts that something happens soon, only that it happens.

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <stoker/base/clock.h>

#include "http_testing/server_fixture.h"

namespace stoker::net {
namespace {

using base::StrCat;
using testing::kGet;
using testing::kPost;
using testing::RawClient;
using testing::Text;

constexpr int64_t kShort = 40 * base::kNsPerMs;

using HttpServerLifeTest = testing::HttpServerFixture;

TEST_F(HttpServerLifeTest, AHeaderThatTricklesIsCut) {
  HttpServerOptions options;
  options.header_timeout_ns = kShort;
  StartEcho(options);
  RawClient client(server_->port());
  ASSERT_TRUE(client.Send("GET / HTTP/1.1\r\nA"));
  while (server_->counters().timeouts == 0 && client.Send("a")) std::this_thread::yield();
  const auto answer = client.Read();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 408);
  EXPECT_EQ(server_->counters().timeouts, 1u);
}

TEST_F(HttpServerLifeTest, ABodyThatStopsIsCut) {
  HttpServerOptions options;
  options.body_timeout_ns = kShort;
  StartEcho(options);
  RawClient known(server_->port());
  RawClient chunked(server_->port());
  ASSERT_TRUE(known.Send("POST / HTTP/1.1\r\nContent-Length: 50\r\n\r\nabc"));
  ASSERT_TRUE(chunked.Send("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"));
  EXPECT_EQ(known.Read()->status, 408);
  EXPECT_EQ(chunked.Read()->status, 408);
  EXPECT_TRUE(known.AtEnd());
}

TEST_F(HttpServerLifeTest, AnIdleConnectionIsClosedWithoutAWord) {
  HttpServerOptions options;
  options.idle_timeout_ns = kShort;
  StartEcho(options);
  RawClient fresh(server_->port());
  RawClient used(server_->port());
  EXPECT_EQ(used.Ask(kGet)->status, 200);
  EXPECT_TRUE(fresh.AtEnd());
  EXPECT_TRUE(used.AtEnd());
}

TEST_F(HttpServerLifeTest, AClientThatDoesNotReadIsCut) {
  HttpServerOptions options;
  options.write_timeout_ns = kShort;
  const base::Bytes large = base::Bytes::Own(std::string(32 << 20, 'x'));
  Start(options, [large](HttpRequest, HttpResponder responder) {
    HttpResponse response;
    response.body.push_back(large);
    responder.Send(std::move(response));
  });
  RawClient client(server_->port(), 4096);
  ASSERT_TRUE(client.Send(kGet));
  while (server_->counters().timeouts == 0) std::this_thread::yield();
  AwaitConnections(0);
  EXPECT_EQ(server_->counters().requests, 1u);
}

TEST_F(HttpServerLifeTest, WaitingForAnAnswerIsNoTimeout) {
  HttpServerOptions options;
  options.header_timeout_ns = options.body_timeout_ns = options.idle_timeout_ns = options.write_timeout_ns =
      kShort;
  StartHolding(options);
  RawClient client(server_->port());
  ASSERT_TRUE(client.Send(kPost));
  AwaitHeld(1);
  std::latch later(1);
  loops_->RunOnAll([&](EventLoop& loop) {
    if (loop.index() == 0) loop.After(4 * kShort, [&] { later.count_down(); });
  });
  later.wait();
  TakeHeld()[0].second.Send(Text("late"));
  EXPECT_EQ(client.Read()->body, "late");
}

TEST_F(HttpServerLifeTest, AClientThatLeavesIsNoticed) {
  StartHolding();
  for (const bool reset : {false, true}) {
    RawClient client(server_->port());
    ASSERT_TRUE(client.Send(kPost + kGet));
    AwaitHeld(2);
    auto held = TakeHeld();
    std::latch gone(2);
    for (auto& [request, responder] : held) {
      EXPECT_FALSE(responder.Disconnected());
      responder.OnDisconnect([&gone] { gone.count_down(); });
    }
    if (reset) {
      client.Reset();
    } else {
      client.Close();
    }
    gone.wait();
    EXPECT_TRUE(held[0].second.Disconnected());
    int at_once = 0;
    held[1].second.OnDisconnect([&at_once] { ++at_once; });
    EXPECT_EQ(at_once, 1);
    held.clear();
    AwaitConnections(0);
  }
}

TEST_F(HttpServerLifeTest, AnAnsweredRequestIsNotDisconnected) {
  std::atomic<int> calls{0};
  Start({}, [&calls](HttpRequest, HttpResponder responder) {
    responder.OnDisconnect([&calls] { ++calls; });
    responder.Send(Text("x"));
  });
  {
    RawClient client(server_->port());
    EXPECT_EQ(client.Ask(kGet)->body, "x");
  }
  AwaitConnections(0);
  EXPECT_EQ(calls, 0);
}

TEST_F(HttpServerLifeTest, AHalfClosedClientIsTakenForGoneButStillAnswered) {
  StartHolding();
  RawClient client(server_->port());
  ASSERT_TRUE(client.Send(kGet + kPost));
  client.HalfClose();
  AwaitHeld(2);
  auto held = TakeHeld();
  std::latch gone(1);
  held[0].second.OnDisconnect([&gone] { gone.count_down(); });
  gone.wait();
  held[1].second.Send(Text("second"));
  held[0].second.Send(Text("first"));
  EXPECT_EQ(client.Read()->body, "first");
  EXPECT_EQ(client.Read()->body, "second");
  EXPECT_TRUE(client.AtEnd());
  // Answered at once, nothing is lost at all.
  StartEcho();
  RawClient direct(server_->port());
  ASSERT_TRUE(direct.Send(kGet + kGet + "GET / HT"));
  direct.HalfClose();
  EXPECT_TRUE(direct.Read());
  EXPECT_TRUE(direct.Read());
  EXPECT_TRUE(direct.AtEnd());
}

TEST_F(HttpServerLifeTest, StreamsAreChunked) {
  StartHolding();
  RawClient client(server_->port());
  ASSERT_TRUE(client.Send(kGet + kPost));
  AwaitHeld(2);
  auto held = TakeHeld();
  held[1].second.StartStream(Text("early "));  // waits for the first answer
  EXPECT_TRUE(held[1].second.Write(base::Bytes::Static("parts ")));
  HttpResponder& first = held[0].second;
  HttpResponse head;
  head.content_type = "text/event-stream";
  first.StartStream(std::move(head));
  const auto answer = client.Read(true);  // before anything else is written
  EXPECT_EQ(answer->headers.at("transfer-encoding"), "chunked");
  EXPECT_EQ(answer->headers.count("content-length"), 0u);
  EXPECT_TRUE(first.Write(base::Bytes::Static("one")));
  EXPECT_TRUE(first.Write({}));  // must not end the stream
  EXPECT_TRUE(first.Write(base::Bytes::Own(std::string(40000, 'y'))));
  first.Finish();
  EXPECT_FALSE(first.Write(base::Bytes::Static("late")));
  EXPECT_TRUE(held[1].second.Write(base::Bytes::Static("and late ones")));
  held[1].second.Finish();
  const std::string wanted = StrCat("3\r\none\r\n9c40\r\n", std::string(40000, 'y'), "\r\n0\r\n\r\n");
  std::string got;
  const auto second_start = [&] { return got.find("HTTP/1.1 200"); };
  client.HalfClose();
  got = client.ReadToEnd();
  EXPECT_EQ(got.substr(0, wanted.size()), wanted);
  EXPECT_EQ(second_start(), wanted.size());
  EXPECT_NE(got.find("6\r\nearly \r\n6\r\nparts \r\nd\r\nand late ones\r\n0\r\n\r\n"), std::string::npos);
}

TEST_F(HttpServerLifeTest, AStreamToAnOldClientEndsWithTheConnection) {
  Start({}, [](HttpRequest, HttpResponder responder) {
    responder.StartStream(Text("a"));
    EXPECT_TRUE(responder.Write(base::Bytes::Static("b")));
    responder.Finish();
  });
  RawClient client(server_->port());
  const auto answer = client.Ask("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_EQ(answer->headers.at("connection"), "close");
  EXPECT_EQ(answer->headers.count("transfer-encoding"), 0u);
  EXPECT_EQ(answer->body, "ab");
  EXPECT_TRUE(client.ended());
}

TEST_F(HttpServerLifeTest, AnUnfinishedStreamIsSeenToBeCut) {
  StartHolding();
  RawClient client(server_->port());
  ASSERT_TRUE(client.Send(kGet));
  AwaitHeld(1);
  {
    auto held = TakeHeld();
    held[0].second.StartStream(Text("begun"));
    ASSERT_TRUE(client.Read(true));
  }
  EXPECT_EQ(client.ReadToEnd().find("0\r\n\r\n"), std::string::npos);
  EXPECT_TRUE(client.ended());
}

TEST_F(HttpServerLifeTest, AStreamNobodyReadsStopsAtItsBound) {
  HttpServerOptions options;
  options.write_backlog_bytes_max = 1 << 20;
  StartHolding(options);
  RawClient client(server_->port(), 4096);
  ASSERT_TRUE(client.Send(kGet));
  AwaitHeld(1);
  auto held = TakeHeld();
  held[0].second.StartStream(Text(""));
  const base::Bytes part = base::Bytes::Own(std::string(100000, 'z'));
  size_t written = 0;
  while (held[0].second.Write(part)) written += part.size();
  EXPECT_GE(written, size_t{9} * part.size());
  EXPECT_LT(written, size_t{64} << 20);
  EXPECT_FALSE(held[0].second.Write(part));
  AwaitConnections(0);
}

TEST_F(HttpServerLifeTest, ClaimedBodiesCostNothingUntilTheyArrive) {
  HttpServerOptions options;
  options.buffered_bytes_max = 1 << 20;
  StartHolding(options);
  std::vector<std::unique_ptr<RawClient>> idle;
  const std::string claim = "POST / HTTP/1.1\r\nContent-Length: 60000000\r\n\r\nstart";
  for (int i = 0; i < 40; ++i) {
    idle.push_back(std::make_unique<RawClient>(server_->port()));
    ASSERT_TRUE(idle.back()->Send(claim));
  }
  AwaitBytesIn(40 * claim.size());
  RawClient fits(server_->port());
  ASSERT_TRUE(
      fits.Send(StrCat("POST / HTTP/1.1\r\nContent-Length: 500000\r\n\r\n", std::string(500000, 'f'))));
  AwaitHeld(1);  // and keeps its memory
  RawClient exceeds(server_->port());
  ASSERT_TRUE(
      exceeds.Send(StrCat("POST / HTTP/1.1\r\nContent-Length: 900000\r\n\r\n", std::string(900000, 'e'))));
  const auto answer = exceeds.Read();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 503);
  TakeHeld()[0].second.Send(Text("done"));
  EXPECT_EQ(fits.Read()->body, "done");
  RawClient now_fits(server_->port());
  ASSERT_TRUE(
      now_fits.Send(StrCat("POST / HTTP/1.1\r\nContent-Length: 900000\r\n\r\n", std::string(900000, 'n'))));
  AwaitHeld(1);
  EXPECT_EQ(TakeHeld()[0].first.body.size(), 900000u);
}

TEST_F(HttpServerLifeTest, ChunksAndRequestsAtWorkCountAgainstTheMemoryToo) {
  HttpServerOptions options;
  options.buffered_bytes_max = 200000;
  options.pipelined_max = 100000;
  StartHolding(options);
  RawClient chunked(server_->port());
  ASSERT_TRUE(chunked.Send(StrCat("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n186A0\r\n",
                                  std::string(100000, 'c'), "\r\n186A0\r\n", std::string(100000, 'c'),
                                  "\r\n0\r\n\r\n")));
  EXPECT_EQ(chunked.Read()->status, 503);
  RawClient many(server_->port());
  std::string script;
  for (int i = 0; i < 400; ++i) script += kPost;
  many.Send(script);  // may fail at the end: the server stops reading
  while (server_->counters().bad_requests < 2) std::this_thread::yield();
  EXPECT_GE(HeldCount(), 50u);
  EXPECT_LT(HeldCount(), 399u);
  TakeHeld();
  RawClient after(server_->port());
  ASSERT_TRUE(after.Send(kPost));
  AwaitHeld(1);
}

TEST_F(HttpServerLifeTest, DrainAnswersWhatIsAtWorkAndClosesTheRest) {
  StartHolding();
  const uint16_t port = server_->port();
  RawClient idle(port);
  RawClient partial(port);
  RawClient busy(port);
  ASSERT_TRUE(partial.Send(kPost.substr(0, 30)));
  ASSERT_TRUE(busy.Send(kGet + kGet));
  AwaitHeld(2);
  AwaitBytesIn(30 + 2 * kGet.size());
  AwaitConnections(3);
  server_->Drain();
  EXPECT_TRUE(idle.AtEnd());
  EXPECT_FALSE(RawClient(port).connected());
  AwaitConnections(2);
  ASSERT_TRUE(partial.Send(kPost.substr(30)));
  AwaitHeld(3);
  for (auto& [request, responder] : TakeHeld()) responder.Send(Text("bye"));
  EXPECT_EQ(busy.Read()->headers.count("connection"), 0u);
  EXPECT_EQ(busy.Read()->headers.at("connection"), "close");
  EXPECT_TRUE(busy.AtEnd());
  EXPECT_EQ(partial.Read()->headers.at("connection"), "close");
  EXPECT_TRUE(partial.AtEnd());
  AwaitConnections(0);
}

TEST_F(HttpServerLifeTest, AnswersMayComeAfterTheServerAndItsLoopsAreGone) {
  StartHolding();
  RawClient client(server_->port());
  ASSERT_TRUE(client.Send(kPost + kGet + kGet));
  AwaitHeld(3);
  auto held = TakeHeld();
  std::atomic<int> gone{0};
  for (auto& [request, responder] : held) responder.OnDisconnect([&gone] { ++gone; });
  server_.reset();
  EXPECT_EQ(gone, 3);
  EXPECT_TRUE(client.AtEnd());
  loops_.reset();
  held[0].second.Send(Text("nobody reads this"));
  held[1].second.StartStream(Text(""));
  EXPECT_FALSE(held[1].second.Write(base::Bytes::Static("x")));
  EXPECT_TRUE(held[2].second.Disconnected());
  EXPECT_EQ(held[0].first.body.text(), "hello world");
}

TEST_F(HttpServerLifeTest, ServersComeAndGoUnderTraffic) {
  std::atomic<bool> stop{false};
  std::atomic<uint16_t> port{0};
  std::vector<std::thread> clients;
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back([&] {
      while (!stop) {
        RawClient client(port);
        for (int k = 0; k < 50 && client.connected() && client.Ask(kPost); ++k) continue;
      }
    });
  }
  for (int round = 0; round < 30; ++round) {
    StartEcho();
    port = server_->port();
    while (server_->counters().requests < 50) std::this_thread::yield();
    if (round % 2 == 0) server_->Drain();
    server_.reset();
  }
  stop = true;
  for (auto& client : clients) client.join();
}

}  // namespace
}  // namespace stoker::net
