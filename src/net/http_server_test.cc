// Aim: the HTTP server as a client sees it. Method: raw sockets against a real server on real loops;
// what must be waited for is waited for by the server's own counters or by latches. Seeds are printed.

#include <stoker/net/http_server.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include <stoker/base/executor.h>
#include <stoker/base/str_cat.h>
#include <stoker/base/testing/random_seed.h>

#include "http_testing/server_fixture.h"

namespace stoker::net {
namespace {

using base::StrCat;
using testing::Describe;
using testing::kChunked;
using testing::kGet;
using testing::kPost;
using testing::RawClient;
using testing::Text;

using HttpServerTest = testing::HttpServerFixture;

TEST_F(HttpServerTest, AnswersWithTheUsualHeaders) {
  StartEcho();
  RawClient client(server_->port());
  const auto answer = client.Ask(kPost);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 200);
  EXPECT_EQ(answer->body, "2 /p  1.1 true\nHost=h\nContent-Length=11\nhello world");
  EXPECT_EQ(answer->headers.at("content-type"), "text/plain");
  EXPECT_EQ(answer->headers.at("content-length"), std::to_string(answer->body.size()));
  EXPECT_EQ(answer->headers.count("connection"), 0u);
  EXPECT_EQ(answer->headers.at("date").size(), std::string_view("Sun, 06 Nov 1994 08:49:37 GMT").size());
  EXPECT_EQ(client.Ask(kGet)->body, "0 /a/b c=d 1.1 false\nHost=h\n");
  EXPECT_EQ(client.Ask(kChunked)->body, "2 /c  1.1 true\nTransfer-Encoding=chunked\nhello world");
  EXPECT_EQ(server_->counters().requests, 3u);
  EXPECT_EQ(server_->counters().accepted, 1u);
}

TEST_F(HttpServerTest, EverySplitPointGivesTheSameAnswer) {
  StartEcho();
  for (const std::string& raw : {kGet, kPost, kChunked}) {
    RawClient client(server_->port());
    const std::string whole = client.Ask(raw)->body;
    for (size_t cut = 1; cut < raw.size(); ++cut) {
      ASSERT_TRUE(SendInPieces(client, raw, {cut}));
      const auto answer = client.Read();
      ASSERT_TRUE(answer) << cut;
      ASSERT_EQ(answer->body, whole) << cut;
    }
    std::vector<size_t> all;
    for (size_t cut = 1; cut < raw.size(); ++cut) all.push_back(cut);
    ASSERT_TRUE(SendInPieces(client, raw, all));
    ASSERT_EQ(client.Read()->body, whole);
  }
}

TEST_F(HttpServerTest, RandomFragmentsOfPipelinedRequests) {
  StartEcho();
  const std::string big = "POST /big HTTP/1.1\r\nContent-Length: 9000\r\n\r\n" + std::string(9000, 'b');
  std::string chunky = "PUT /k HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 30; ++i)
    chunky += StrCat("A0\r\n", std::string(160, static_cast<char>('a' + i % 26)), "\r\n");
  chunky += "0\r\n\r\n";
  const std::vector<std::string> requests = {kGet, kPost, kChunked, big, kGet, chunky, kPost};
  std::string script;
  std::vector<std::string> wanted;
  RawClient client(server_->port());
  for (const std::string& request : requests) {
    script += request;
    wanted.push_back(client.Ask(request)->body);
  }
  const uint64_t seed = base::testing::RandomSeed();
  std::mt19937_64 random(seed);
  for (int round = 0; round < 1000; ++round) {
    std::vector<size_t> cuts(random() % 12);
    for (size_t& cut : cuts) cut = random() % 3 == 0 ? random() % 400 : random() % script.size();
    std::sort(cuts.begin(), cuts.end());
    ASSERT_TRUE(SendInPieces(client, script, cuts));
    for (const std::string& body : wanted) {
      const auto answer = client.Read();
      ASSERT_TRUE(answer) << "seed " << seed << " round " << round;
      ASSERT_EQ(answer->body, body) << "seed " << seed << " round " << round;
    }
  }
}

TEST_F(HttpServerTest, RefusedRequestsAreAnsweredInJsonAndClosed) {
  HttpServerOptions options;
  options.body_bytes_max = 1000;
  options.header_bytes_max = 2000;
  StartEcho(options);
  const std::string hidden = "GET /hidden HTTP/1.1\r\n\r\n";
  const std::string head = "POST / HTTP/1.1\r\n";
  const std::pair<std::string, int> cases[] = {
      {head + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {head + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", 400},
      {head + "Content-Length: +5\r\n\r\nhello", 400},
      {head + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", 400},
      {head + "A: b\r\n folded\r\n\r\n", 400},
      {head + "A : b\r\n\r\n", 400},
      {head + "A: b\nC: d\r\n\r\n", 400},
      {head + "Transfer-Encoding: chunked\r\n\r\nx\r\n", 400},
      {head + "Transfer-Encoding: chunked\r\n\r\n5\r\nhelloworld", 400},
      {head + "Transfer-Encoding: chunked\r\n\r\n3E9\r\n", 413},
      {head + "Content-Length: 1001\r\n\r\n", 413},
      {head + "A: " + std::string(3000, 'x') + "\r\n\r\n", 431},
      {"GET /" + std::string(3000, 'x') + " HTTP/1.1\r\n\r\n", 414},
      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
      {"\x16\x03\x01\x02\x03\x04", 400},
      {head + "Transfer-Encoding: gzip\r\n\r\n", 501},
      {head + "Expect: everything\r\n\r\n", 417}};
  uint64_t bad = 0;
  for (const auto& [raw, status] : cases) {
    RawClient client(server_->port());
    ASSERT_TRUE(client.Send(kGet + raw + hidden));
    EXPECT_EQ(client.Read()->status, 200) << raw;
    const auto answer = client.Read();
    ASSERT_TRUE(answer) << raw;
    EXPECT_EQ(answer->status, status) << raw;
    EXPECT_EQ(answer->headers.at("connection"), "close");
    EXPECT_EQ(answer->headers.at("content-type"), "application/json");
    EXPECT_EQ(answer->body.substr(0, 10), "{\"error\":\"") << answer->body;
    EXPECT_EQ(answer->body.substr(answer->body.size() - 2), "\"}");
    EXPECT_TRUE(client.AtEnd()) << raw;
    EXPECT_EQ(server_->counters().bad_requests, ++bad);
  }
  EXPECT_EQ(server_->counters().requests, bad);  // the good ones; nothing hidden got through
  AwaitConnections(0);
}

TEST_F(HttpServerTest, KeepAliveFollowsVersionAndConnectionHeader) {
  StartEcho();
  {
    RawClient client(server_->port());
    const auto answer = client.Ask("GET / HTTP/1.0\r\n\r\n");
    EXPECT_EQ(answer->headers.at("connection"), "close");
    EXPECT_TRUE(client.AtEnd());
  }
  {
    RawClient client(server_->port());
    for (int i = 0; i < 3; ++i) {
      const auto answer = client.Ask("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
      EXPECT_EQ(answer->headers.at("connection"), "keep-alive");
    }
  }
  {
    RawClient client(server_->port());
    const auto answer = client.Ask("GET / HTTP/1.1\r\nConnection: close\r\n\r\n" + kGet);
    EXPECT_EQ(answer->headers.at("connection"), "close");
    EXPECT_TRUE(client.AtEnd());
  }
  EXPECT_EQ(server_->counters().requests, 5u);
}

TEST_F(HttpServerTest, HeadHasTheLengthButNoBodyAndSomeStatusesHaveNeither) {
  Start({}, [](HttpRequest request, HttpResponder responder) {
    responder.Send(Text("0123456789", request.path == "/none" ? 204 : 200));
  });
  RawClient client(server_->port());
  ASSERT_TRUE(client.Send(
      "HEAD / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\nGET /none HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n"));
  const auto head = client.Read(true);
  EXPECT_EQ(head->headers.at("content-length"), "10");
  EXPECT_EQ(client.Read()->body, "0123456789");
  const auto none = client.Read();
  EXPECT_EQ(none->status, 204);
  EXPECT_EQ(none->headers.count("content-length"), 0u);
  EXPECT_EQ(client.Read()->body, "0123456789");
}

TEST_F(HttpServerTest, HeadersOfAnAnswerCannotBeForged) {
  Start({}, [](HttpRequest, HttpResponder responder) {
    HttpResponse response = Text("x");
    response.headers.emplace_back("X-Echo", "a\r\nSet-Cookie: b\n\r\n");
    responder.Send(std::move(response));
  });
  RawClient client(server_->port());
  const auto answer = client.Ask(kGet);
  EXPECT_EQ(answer->headers.count("set-cookie"), 0u);
  EXPECT_EQ(answer->body, "x");
}

TEST_F(HttpServerTest, PipelinedAnswersLeaveInOrderWhateverOrderTheyComeIn) {
  StartHolding();
  RawClient client(server_->port());
  std::string script;
  for (int i = 0; i < 20; ++i) script += StrCat("GET /", i, " HTTP/1.1\r\n\r\n");
  ASSERT_TRUE(client.Send(script));
  AwaitHeld(20);
  auto held = TakeHeld();
  std::shuffle(held.begin(), held.end(), std::mt19937(5));
  std::vector<std::thread> threads;
  for (auto& one : held) {
    threads.emplace_back([&one] { one.second.Send(Text(std::string(one.first.path))); });
  }
  for (auto& thread : threads) thread.join();
  for (int i = 0; i < 20; ++i) ASSERT_EQ(client.Read()->body, StrCat("/", i));
}

TEST_F(HttpServerTest, ReadingPausesAtTheBoundOfUnansweredRequests) {
  HttpServerOptions options;
  options.pipelined_max = 4;
  StartHolding(options);
  RawClient client(server_->port());
  std::string script;
  for (int i = 0; i < 100; ++i) script += StrCat("GET /", i, " HTTP/1.1\r\n\r\n");
  ASSERT_TRUE(client.Send(script));
  AwaitHeld(4);
  loops_->RunOnAll([](EventLoop&) {});
  loops_->RunOnAll([](EventLoop&) {});
  EXPECT_EQ(HeldCount(), 4u);
  for (int i = 0; i < 100;) {
    AwaitHeld(1);
    for (auto& [request, responder] : TakeHeld()) responder.Send(Text(std::string(request.path)));
    for (; i < 100 && i < static_cast<int>(server_->counters().requests) - 4; ++i)
      ASSERT_EQ(client.Read()->body, StrCat("/", i));
    if (server_->counters().requests == 100 && HeldCount() == 0) {
      for (; i < 100; ++i) ASSERT_EQ(client.Read()->body, StrCat("/", i));
    }
  }
}

TEST_F(HttpServerTest, ExpectationOfContinueIsMetOnceAndOnlyWhenNeeded) {
  StartHolding();
  RawClient client(server_->port());
  const std::string head = "POST /e HTTP/1.1\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n";
  ASSERT_TRUE(client.Send(head));
  EXPECT_EQ(client.Read()->status, 100);
  ASSERT_TRUE(client.Send("hello"));
  AwaitHeld(1);
  // A second one waits for its turn behind the first answer.
  ASSERT_TRUE(client.Send(head));
  auto held = TakeHeld();
  EXPECT_EQ(held[0].first.body.text(), "hello");
  AwaitBytesIn(2 * head.size() + 5);
  held[0].second.Send(Text("first"));
  EXPECT_EQ(client.Read()->body, "first");
  EXPECT_EQ(client.Read()->status, 100);
  ASSERT_TRUE(client.Send("world"));
  AwaitHeld(1);
  TakeHeld()[0].second.Send(Text("second"));
  EXPECT_EQ(client.Read()->body, "second");
  ASSERT_TRUE(client.Send(head + "again"));  // the body is here: nothing to wait for
  AwaitHeld(1);
  TakeHeld()[0].second.Send(Text("third"));
  EXPECT_EQ(client.Read()->body, "third");
}

TEST_F(HttpServerTest, BigBodiesArriveWholeAndAligned) {
  Start({}, [](HttpRequest request, HttpResponder responder) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(request.body.data()) % 64, 0u);
    HttpResponse response;
    response.body.push_back(request.body);
    responder.Send(std::move(response));
  });
  std::string body(60 << 20, '\0');
  std::mt19937_64 random(17);
  for (size_t i = 0; i + 8 <= body.size(); i += 8) {
    const uint64_t word = random();
    std::memcpy(&body[i], &word, 8);
  }
  for (const size_t size : {size_t{70000}, size_t{1} << 20, body.size()}) {
    RawClient client(server_->port());
    const std::string part = body.substr(0, size);
    ASSERT_TRUE(client.Send(StrCat("POST / HTTP/1.1\r\nContent-Length: ", size, "\r\n\r\n", part)));
    EXPECT_TRUE(client.Read()->body == part) << size;
  }
  RawClient client(server_->port());
  std::string chunked = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (size_t at = 0; at < (20u << 20); at += 1 << 20)
    chunked += StrCat("100000\r\n", body.substr(at, 1 << 20), "\r\n");
  ASSERT_TRUE(client.Send(chunked + "0\r\n\r\n"));
  EXPECT_TRUE(client.Read()->body == body.substr(0, 20 << 20));
}

TEST_F(HttpServerTest, AnUploadBeyondTheLimitGetsItsAnswerNotAReset) {
  HttpServerOptions options;
  options.body_bytes_max = 1 << 20;
  StartEcho(options);
  const std::string body(8 << 20, 'x');
  RawClient client(server_->port());
  ASSERT_TRUE(client.Send(StrCat("POST / HTTP/1.1\r\nContent-Length: ", body.size(), "\r\n\r\n", body)));
  EXPECT_EQ(client.Read()->status, 413);
  EXPECT_TRUE(client.AtEnd());
  RawClient chunked(server_->port());
  ASSERT_TRUE(chunked.Send(
      StrCat("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n800000\r\n", body, "\r\n0\r\n\r\n")));
  EXPECT_EQ(chunked.Read()->status, 413);
}

TEST_F(HttpServerTest, RequestsOutliveTheirConnection) {
  StartHolding();
  RawClient client(server_->port());
  const std::string body(5000, 'm');
  ASSERT_TRUE(
      client.Send(kPost + kChunked + "POST /m HTTP/1.1\r\nContent-Length: 5000\r\n\r\n" + body + kGet));
  AwaitHeld(4);
  client.Reset();
  AwaitConnections(0);
  // Other traffic reuses whatever receive memory is free.
  for (int i = 0; i < 20; ++i) {
    RawClient other(server_->port());
    ASSERT_TRUE(
        other.Send(StrCat("POST /other HTTP/1.1\r\nContent-Length: 5000\r\n\r\n", std::string(5000, '#'))));
    AwaitHeld(5 + static_cast<size_t>(i));
  }
  const auto held = TakeHeld();
  EXPECT_EQ(Describe(held[0].first), "2 /p  1.1 true\nHost=h\nContent-Length=11\nhello world");
  EXPECT_EQ(Describe(held[1].first), "2 /c  1.1 true\nTransfer-Encoding=chunked\nhello world");
  EXPECT_EQ(held[2].first.body.text(), body);
  EXPECT_EQ(Describe(held[3].first), "0 /a/b c=d 1.1 false\nHost=h\n");
  EXPECT_EQ(held[3].first.peer.substr(0, 10), "127.0.0.1:");
  EXPECT_EQ(held[0].first.Header("HOST"), "h");
  EXPECT_FALSE(held[0].first.HasHeader("nope"));
  EXPECT_GT(held[0].first.received_ns, 0);
}

TEST_F(HttpServerTest, AnswersFromOtherThreadsUnderLoad) {
  base::Executor executor({.name = "answer", .threads = 2, .queue_limit = 1 << 20});
  Start({}, [&executor](HttpRequest request, HttpResponder responder) {
    auto shared =
        std::make_shared<std::pair<HttpRequest, HttpResponder>>(std::move(request), std::move(responder));
    EXPECT_TRUE(executor.Submit([shared] { shared->second.Send(Text(Describe(shared->first))); }).ok());
  });
  std::vector<std::thread> clients;
  std::atomic<int> good{0};
  for (int c = 0; c < 8; ++c) {
    clients.emplace_back([&, c] {
      RawClient client(server_->port());
      for (int i = 0; i < 250; ++i) {
        std::string script;
        for (int k = 0; k < 4; ++k)
          script += StrCat("POST /", c, "/", i, "/", k, " HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc");
        if (!client.Send(script)) return;
        for (int k = 0; k < 4; ++k) {
          const auto answer = client.Read();
          if (answer && answer->body == StrCat("2 /", c, "/", i, "/", k, "  1.1 true\nContent-Length=3\nabc"))
            ++good;
        }
      }
    });
  }
  for (auto& client : clients) client.join();
  EXPECT_EQ(good, 8000);
  EXPECT_EQ(server_->counters().requests, 8000u);
}

TEST_F(HttpServerTest, ADroppedResponderIsAnError) {
  Start({}, [](HttpRequest, HttpResponder) {});
  RawClient client(server_->port());
  EXPECT_EQ(client.Ask(kGet)->status, 500);
  EXPECT_EQ(client.Ask(kGet)->status, 500);
}

TEST_F(HttpServerTest, OnlyTheFirstAnswerCounts) {
  Start({}, [](HttpRequest, HttpResponder responder) {
    responder.Send(Text("first"));
    responder.Send(Text("second"));
    responder.StartStream(Text("third"));
    EXPECT_FALSE(responder.Write(base::Bytes::Static("fourth")));
    responder.Finish();
  });
  RawClient client(server_->port());
  EXPECT_EQ(client.Ask(kGet)->body, "first");
  EXPECT_EQ(client.Ask(kGet)->body, "first");
}

TEST_F(HttpServerTest, ABoundOfConnectionsIsSaid) {
  HttpServerOptions options;
  options.connections_max = 1;
  StartEcho(options);
  RawClient first(server_->port());
  EXPECT_EQ(first.Ask(kGet)->status, 200);
  RawClient second(server_->port());
  const auto answer = second.Read();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 503);
  EXPECT_TRUE(second.AtEnd());
  EXPECT_EQ(server_->counters().refused, 1u);
}

}  // namespace
}  // namespace stoker::net
