// gRPC's rules on one connection, spoken with a real HTTP/2 client (nghttp2) but without sockets or
// clocks: what reaches handlers, and what the client gets to see.

#include "grpc_session_fixture.h"

namespace stoker::net::internal {
namespace {

using GrpcSessionTest = GrpcSessionFixture;

TEST_F(GrpcSessionTest, UnaryCallIsAnswered) {
  Open();
  const int32_t id = client.Request(GrpcRequestFields("/echo"), GrpcFrame("hello"));
  ASSERT_TRUE(Pump());
  EXPECT_EQ(answer(id).headers, (TestFields{{":status", "200"}, {"content-type", "application/grpc"}}));
  EXPECT_EQ(answer(id).Messages(), std::vector<std::string>{"hello"});
  EXPECT_EQ(answer(id).trailers, (TestFields{{"grpc-status", "0"}}));
  EXPECT_TRUE(answer(id).closed);
  EXPECT_EQ(answer(id).error, 0u);
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_EQ(calls[0]->half_closes, 1);
  EXPECT_EQ(calls[0]->cancels, 0);
  EXPECT_TRUE(calls[0]->destroyed);
  EXPECT_FALSE(calls[0]->call->cancelled());
  EXPECT_EQ(session->open_calls(), 0u);
  EXPECT_EQ(counters.open_calls, 0u);
}

// The bytes of an answer, by RFC 7541 and 9113: header by indexes and literals, data, trailers.
TEST_F(GrpcSessionTest, AnswerBytesAreGolden) {
  Open();
  ASSERT_TRUE(Pump());
  client.Request(GrpcRequestFields("/echo"), GrpcFrame("hi"));
  ASSERT_TRUE(Feed(client.TakeOutput()).ok());
  const std::string first = Drain();
  using std::string_view_literals::operator""sv;
  const std::string head = first.substr(0, 9);
  EXPECT_EQ(head.substr(3), "\x01\x04\x00\x00\x00\x01"sv);  // HEADERS, END_HEADERS, stream 1
  EXPECT_NE(first.find("\x00\x00\x07\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x02hi"sv), std::string::npos);
  ASSERT_TRUE(client.Receive(first));
  client.Request(GrpcRequestFields("/echo"), GrpcFrame("hi"));
  ASSERT_TRUE(Feed(client.TakeOutput()).ok());
  // Now everything is in the table: 0x88 is :status 200, 0xbf and 0xbe are the two entered above.
  EXPECT_EQ(Drain(),
            "\x00\x00\x02\x01\x04\x00\x00\x00\x03\x88\xbf"
            "\x00\x00\x07\x00\x00\x00\x00\x00\x03\x00\x00\x00\x00\x02hi"
            "\x00\x00\x01\x01\x05\x00\x00\x00\x03\xbe"sv);
}

TEST_F(GrpcSessionTest, StreamEchoesEachMessageInOrder) {
  Open();
  const int32_t id = client.Request(GrpcRequestFields("/echo"), "", false);
  std::vector<std::string> sent;
  for (int i = 0; i < 100; ++i) {
    sent.push_back(std::string(static_cast<size_t>(i * i), static_cast<char>('a' + i % 26)));
    client.SendData(id, GrpcFrame(sent.back()), false);
    if (i % 7 == 0) {
      ASSERT_TRUE(Pump());
    }
  }
  ASSERT_TRUE(Pump());
  EXPECT_EQ(answer(id).Messages(), sent);
  EXPECT_FALSE(answer(id).ended);
  client.SendData(id, "", true);
  ASSERT_TRUE(Pump());
  EXPECT_EQ(answer(id).status(), "0");
}

TEST_F(GrpcSessionTest, MessagesMayBeCutAnywhere) {
  Open();
  const std::string body = GrpcFrame("first") + GrpcFrame("") + GrpcFrame("second one");
  for (size_t cut = 0; cut <= body.size(); ++cut) {
    const int32_t id = client.Request(GrpcRequestFields("/echo"), body.substr(0, cut), false);
    ASSERT_TRUE(Pump());
    client.SendData(id, body.substr(cut), true);
    ASSERT_TRUE(Pump());
    ASSERT_EQ(answer(id).Messages(), (std::vector<std::string>{"first", "", "second one"}))
        << "cut at " << cut;
    ASSERT_EQ(answer(id).status(), "0");
  }
}

TEST_F(GrpcSessionTest, ConnectionBytesMayArriveOneByOne) {
  Open();
  const int32_t id = client.Request(GrpcRequestFields("/echo"), GrpcFrame("slow"));
  const std::string bytes = client.TakeOutput();
  for (const char byte : bytes) ASSERT_TRUE(Feed({&byte, 1}).ok());
  ASSERT_TRUE(Pump());
  EXPECT_EQ(answer(id).Messages(), std::vector<std::string>{"slow"});
}

TEST_F(GrpcSessionTest, LargeMessagesPassWindowsBothWays) {
  options.stream_window_bytes = 70000;
  options.connection_window_bytes = 100000;
  Open();
  std::string large;
  for (int i = 0; large.size() < 5'000'000; ++i) large += std::to_string(i);
  const int32_t id = client.Request(GrpcRequestFields("/echo"), GrpcFrame(large));
  const int32_t other = client.Request(GrpcRequestFields("/echo"), GrpcFrame("small"));
  ASSERT_TRUE(Pump());
  ASSERT_EQ(answer(id).Messages().size(), 1u);
  EXPECT_TRUE(answer(id).Messages()[0] == large);
  EXPECT_EQ(answer(other).Messages(), std::vector<std::string>{"small"});
  EXPECT_EQ(shared->budget.used_bytes(), 0u);
}

TEST_F(GrpcSessionTest, AnswersFromOtherThreadsKeepTheirOrder) {
  Open();
  const int32_t id = client.Request(GrpcRequestFields("/hold"), GrpcFrame("x"));
  ASSERT_TRUE(Pump());
  GrpcCall& call = *calls.at(0)->call;
  port->in_own_thread = false;
  EXPECT_TRUE(call.Write({base::Bytes::Own("one")}));
  port->in_own_thread = true;
  EXPECT_TRUE(call.Write({base::Bytes::Own("t"), base::Bytes::Own("wo")}));  // must not overtake
  call.Finish(base::OkStatus(), {{"x-trailer", "v"}, {"x-bytes-bin", std::string("\0\xff\x01", 3)}});
  call.Finish(base::Internal("too late"));
  EXPECT_FALSE(call.Write({base::Bytes::Own("too late")}));
  ASSERT_TRUE(Pump());
  EXPECT_EQ(answer(id).Messages(), (std::vector<std::string>{"one", "two"}));
  EXPECT_EQ(answer(id).trailers,
            (TestFields{{"grpc-status", "0"}, {"x-trailer", "v"}, {"x-bytes-bin", "AP8B"}}));
}

TEST_F(GrpcSessionTest, MetadataReachesTheCall) {
  Open();
  const std::string binary("\x00\x01\xfe", 3);
  client.Request(GrpcRequestFields("/hold", {{"x-key", "value"},
                                             {"x-key", "again"},
                                             {"x-data-bin", "AAH+"},
                                             {"x-more-bin", "aGk=,aG8"},
                                             {"grpc-timeout", "5S"},
                                             {"grpc-accept-encoding", "gzip"}}),
                 "");
  const GrpcMetadata expected{{"user-agent", "test/1.0"}, {"x-key", "value"},   {"x-key", "again"},
                              {"x-data-bin", binary},     {"x-more-bin", "hi"}, {"x-more-bin", "ho"}};
  ASSERT_TRUE(Pump());
  const GrpcCall& call = *calls.at(0)->call;
  EXPECT_EQ(call.metadata(), expected);
  EXPECT_EQ(call.path(), "/hold");
  EXPECT_EQ(call.peer(), "peer:1");
  EXPECT_EQ(call.received_ns(), now_ns);
  EXPECT_EQ(call.deadline_ns(), now_ns + 5'000'000'000);
  // The next call has the same beginning but fewer, the one after that other values.
  client.Request(GrpcRequestFields("/hold", {{"x-key", "value"}}), "");
  client.Request(GrpcRequestFields("/hold", {{"x-key", "other"}}), "");
  client.Request(GrpcRequestFields("/hold", {{"x-key", "other"}}), "");
  ASSERT_TRUE(Pump());
  EXPECT_EQ(calls.at(0)->call->metadata(), expected);
  EXPECT_EQ(calls.at(1)->call->metadata(), (GrpcMetadata{{"user-agent", "test/1.0"}, {"x-key", "value"}}));
  EXPECT_EQ(calls.at(2)->call->metadata(), (GrpcMetadata{{"user-agent", "test/1.0"}, {"x-key", "other"}}));
  EXPECT_EQ(&calls.at(2)->call->metadata(), &calls.at(3)->call->metadata());  // shared, not copied
  EXPECT_EQ(calls.at(3)->call->deadline_ns(), 0);
}

struct Refusal {
  TestFields fields;
  std::string http_status;
  std::string grpc_status;
  std::string message_part;
};

TEST_F(GrpcSessionTest, BadRequestsAreRefusedByTrailersAlone) {
  Open();
  TestFields get = GrpcRequestFields("/echo");
  get[0].second = "GET";
  TestFields json = GrpcRequestFields("/echo");
  json[5].second = "application/json";
  TestFields untyped = GrpcRequestFields("/echo");
  untyped.erase(untyped.begin() + 5);
  TestFields alike = GrpcRequestFields("/echo");
  alike[5].second = "application/grpcish";
  const std::vector<Refusal> refusals{
      {get, "405", "13", "POST"},
      {json, "415", "3", "application/json"},
      {untyped, "415", "3", "application/grpc expected"},
      {alike, "415", "3", "application/grpcish"},
      {GrpcRequestFields("/none"), "200", "12", "/none"},
      {GrpcRequestFields("/echo", {{"grpc-timeout", "5"}}), "200", "13", "grpc-timeout"},
      {GrpcRequestFields("/echo", {{"grpc-timeout", "0m"}}), "200", "4", "deadline"},
      {GrpcRequestFields("/echo", {{"grpc-encoding", "snappy"}}), "200", "12", "snappy"},
      {GrpcRequestFields("/echo", {{"x-bin", "*"}}), "200", "13", "base64"},
  };
  for (const Refusal& refusal : refusals) {
    const int32_t id = client.Request(refusal.fields, GrpcFrame("body"));
    ASSERT_TRUE(Pump());
    EXPECT_EQ(answer(id).Field(":status"), refusal.http_status) << refusal.message_part;
    EXPECT_EQ(answer(id).status(), refusal.grpc_status) << refusal.message_part;
    EXPECT_NE(answer(id).Field("grpc-message").find(refusal.message_part), std::string::npos)
        << answer(id).Field("grpc-message");
    EXPECT_TRUE(answer(id).trailers.empty());
    EXPECT_EQ(answer(id).Field("grpc-accept-encoding"),
              refusal.message_part == "snappy" ? "identity,deflate,gzip" : "");
    EXPECT_TRUE(answer(id).closed);
  }
  EXPECT_TRUE(calls.empty());
  const int32_t id =
      client.Request(GrpcRequestFields("/echo", {{"grpc-encoding", "identity"}}), GrpcFrame("ok"));
  ASSERT_TRUE(Pump());
  EXPECT_EQ(answer(id).status(), "0");
}

TEST_F(GrpcSessionTest, BadMessagesEndTheCallOnly) {
  options.message_bytes_max = 100;
  Open();
  const std::string large(101, 'x');
  struct Case {
    std::string body;
    std::string status;
  };
  for (const Case& bad :
       {Case{GrpcFrame("x", 2), "13"}, Case{GrpcFrame("x", 1), "13"}, Case{GrpcFrame(large), "8"},
        Case{GrpcFrame("x").substr(0, 3), "13"}, Case{GrpcFrame("xyz").substr(0, 7), "13"},
        Case{std::string("\0\xff\xff\xff\xff", 5), "8"}}) {
    const int32_t id = client.Request(GrpcRequestFields("/echo"), bad.body);
    ASSERT_TRUE(Pump());
    EXPECT_EQ(answer(id).status(), bad.status);
    EXPECT_EQ(calls.back()->cancels, 1);
    EXPECT_TRUE(calls.back()->destroyed);
    EXPECT_TRUE(calls.back()->messages.empty());
  }
  const int32_t id = client.Request(GrpcRequestFields("/echo"), GrpcFrame(std::string(100, 'x')));
  ASSERT_TRUE(Pump());
  EXPECT_EQ(answer(id).status(), "0");
  EXPECT_EQ(shared->budget.used_bytes(), 0u);
}

std::string Compressed(ContentCoding coding, std::string text) {
  const base::Bytes part = base::Bytes::Own(std::move(text));
  return std::string(Compress(coding, std::span(&part, 1)).text());
}

TEST_F(GrpcSessionTest, CompressedMessagesAreDecompressed) {
  options.message_bytes_max = 100'000;
  Open();
  const std::string text(100'000, 'c');
  std::string bomb;
  bomb.resize(100'000'000, 'c');
  for (const auto& [name, coding] :
       {std::pair{"gzip", ContentCoding::kGzip}, std::pair{"deflate", ContentCoding::kDeflate}}) {
    const int32_t id = client.Request(GrpcRequestFields("/echo", {{"grpc-encoding", name}}),
                                      GrpcFrame(Compressed(coding, text), 1) + GrpcFrame("plain, too"));
    ASSERT_TRUE(Pump());
    EXPECT_EQ(answer(id).Messages(), (std::vector<std::string>{text, "plain, too"}));
    struct Case {
      std::string body;
      std::string status;
    };
    for (const Case& bad :
         {Case{Compressed(coding, text + "c"), "8"}, Case{Compressed(coding, bomb), "8"},
          Case{"rubbish", "13"}, Case{Compressed(coding, text).substr(0, 50), "13"}, Case{"", "13"}}) {
      const int32_t refused =
          client.Request(GrpcRequestFields("/echo", {{"grpc-encoding", name}}), GrpcFrame(bad.body, 1));
      ASSERT_TRUE(Pump());
      EXPECT_EQ(answer(refused).status(), bad.status) << name << ", " << bad.body.size() << " bytes";
      EXPECT_EQ(calls.back()->cancels, 1);
    }
  }
}

TEST_F(GrpcSessionTest, AnswersAreCompressedForWhoTakesIt) {
  options.gzip_responses = true;
  Open();
  const std::string text(50'000, 'c');
  const int32_t id = client.Request(GrpcRequestFields("/echo", {{"grpc-accept-encoding", "identity,gzip"}}),
                                    GrpcFrame(text) + GrpcFrame("short"));
  const int32_t plain =
      client.Request(GrpcRequestFields("/echo", {{"grpc-accept-encoding", "deflate"}}), GrpcFrame(text));
  ASSERT_TRUE(Pump());
  EXPECT_EQ(answer(id).Field("grpc-encoding"), "gzip");
  const std::string& data = answer(id).data;
  ASSERT_GT(data.size(), 15u);
  EXPECT_LT(data.size(), 1000u);
  EXPECT_EQ(data[0], 1);
  EXPECT_EQ(data.substr(data.size() - 10), GrpcFrame("short"));
  const std::string_view message = std::string_view(data).substr(5, data.size() - 15);
  const auto decompressed =
      Decompress(ContentCoding::kGzip, std::as_bytes(std::span<const char>(message)), 100'000);
  ASSERT_TRUE(decompressed.ok());
  EXPECT_TRUE(decompressed->text() == text);
  EXPECT_EQ(answer(plain).Field("grpc-encoding"), "");
  EXPECT_EQ(answer(plain).Messages(), std::vector<std::string>{text});
}

TEST_F(GrpcSessionTest, ErrorInMidStreamComesBehindWhatWasAnswered) {
  Open();
  const int32_t id = client.Request(GrpcRequestFields("/echo"), GrpcFrame("good"), false);
  ASSERT_TRUE(Pump());
  client.SendData(id, GrpcFrame("bad", 7), false);  // and no half-close
  ASSERT_TRUE(Pump());
  EXPECT_EQ(answer(id).Messages(), std::vector<std::string>{"good"});
  EXPECT_EQ(answer(id).status(), "13");
  EXPECT_TRUE(answer(id).closed);
}

TEST_F(GrpcSessionTest, StatusMessagesAreEncodedAndCut) {
  Open();
  const auto fail = [&](std::string text) {
    const int32_t id = client.Request(GrpcRequestFields("/hold"), "");
    EXPECT_TRUE(Pump());
    calls.back()->call->Finish(base::NotFound(std::move(text)));
    EXPECT_TRUE(Pump());
    EXPECT_EQ(answer(id).status(), "5");
    return answer(id).Field("grpc-message");
  };
  EXPECT_EQ(fail("50% of\nü"), "50%25 of%0A%C3%BC");
  EXPECT_EQ(fail(std::string(100000, 'y')), std::string(6000, 'y'));
  EXPECT_EQ(fail(""), "");
}

TEST_F(GrpcSessionTest, FinishBeforeHalfCloseEndsTheStream) {
  Open();
  const int32_t id = client.Request(GrpcRequestFields("/hold"), GrpcFrame("x"), false);
  ASSERT_TRUE(Pump());
  calls.at(0)->call->Finish(base::OkStatus());
  ASSERT_TRUE(Pump());
  EXPECT_EQ(answer(id).status(), "0");
  EXPECT_TRUE(answer(id).closed);
  EXPECT_EQ(answer(id).error, 0u);  // RST_STREAM(NO_ERROR)
  EXPECT_EQ(session->open_calls(), 0u);
}

TEST_F(GrpcSessionTest, ClientResetCancels) {
  Open();
  const int32_t id = client.Request(GrpcRequestFields("/hold"), GrpcFrame("x"), false);
  ASSERT_TRUE(Pump());
  EXPECT_FALSE(calls.at(0)->call->cancelled());
  client.Reset(id, 8);
  ASSERT_TRUE(Pump());
  EXPECT_EQ(calls.at(0)->cancels, 1);
  EXPECT_TRUE(calls.at(0)->destroyed);
  EXPECT_TRUE(calls.at(0)->call->cancelled());
  EXPECT_FALSE(calls.at(0)->call->Write({base::Bytes::Own("x")}));
  calls.at(0)->call->Finish(base::OkStatus());
  EXPECT_EQ(session->open_calls(), 0u);
}

TEST_F(GrpcSessionTest, ResetWithAnswersOnTheirWay) {
  Open();
  const int32_t id = client.Request(GrpcRequestFields("/hold"), GrpcFrame("x"), false);
  ASSERT_TRUE(Pump());
  port->in_own_thread = false;
  calls.at(0)->call->Write({base::Bytes::Own("x")});
  calls.at(0)->call->Finish(base::OkStatus());
  client.Reset(id, 8);
  ASSERT_TRUE(Feed(client.TakeOutput()).ok());
  EXPECT_EQ(calls.at(0)->cancels, 0);  // it had finished
  ASSERT_TRUE(Pump());
  EXPECT_TRUE(calls.at(0)->destroyed);
}

TEST_F(GrpcSessionTest, LostConnectionCancelsAll) {
  Open();
  for (int i = 0; i < 3; ++i) client.Request(GrpcRequestFields("/hold"), GrpcFrame("x"), false);
  ASSERT_TRUE(Pump());
  session.reset();
  for (const auto& call : calls) {
    EXPECT_EQ(call->cancels, 1);
    EXPECT_TRUE(call->destroyed);
    EXPECT_TRUE(call->call->cancelled());
    EXPECT_FALSE(call->call->Write({base::Bytes::Own("x")}));
  }
  EXPECT_EQ(counters.open_calls, 0u);
}

TEST_F(GrpcSessionTest, DeadlineEndsTheCall) {
  Open();
  const int32_t late =
      client.Request(GrpcRequestFields("/hold", {{"grpc-timeout", "900m"}}), GrpcFrame("x"), false);
  const int32_t later = client.Request(GrpcRequestFields("/hold", {{"grpc-timeout", "1S"}}), "");
  const int32_t done = client.Request(GrpcRequestFields("/echo", {{"grpc-timeout", "100m"}}), "");
  ASSERT_TRUE(Pump());
  EXPECT_EQ(answer(done).status(), "0");
  now_ns += 899'999'999;
  session->OnTime();
  ASSERT_TRUE(Pump());
  EXPECT_EQ(answer(late).status(), "");
  EXPECT_EQ(session->next_time_ns(), now_ns + 1);
  now_ns += 1;
  session->OnTime();
  ASSERT_TRUE(Pump());
  EXPECT_EQ(answer(late).status(), "4");
  EXPECT_EQ(answer(late).Field("grpc-message"), "Deadline Exceeded");
  EXPECT_TRUE(answer(late).closed);
  EXPECT_EQ(calls.at(0)->cancels, 1);
  EXPECT_EQ(answer(later).status(), "");
  now_ns += 100'000'000;
  session->OnTime();
  ASSERT_TRUE(Pump());
  EXPECT_EQ(answer(later).status(), "4");
  EXPECT_EQ(session->open_calls(), 0u);
}

TEST_F(GrpcSessionTest, DeadlinesOfEndedCallsAreForgotten) {
  Open();
  for (int i = 0; i < 1000; ++i) {
    client.Request(GrpcRequestFields("/echo", {{"grpc-timeout", "1H"}}), "");
    ASSERT_TRUE(Pump());
  }
  client.Request(GrpcRequestFields("/hold", {{"grpc-timeout", "2H"}}), "");
  ASSERT_TRUE(Pump());
  now_ns += 3'600'000'000'000;
  session->OnTime();
  EXPECT_EQ(session->next_time_ns(), now_ns + 3'600'000'000'000);
}

TEST_F(GrpcSessionTest, DeadlineWithinAnAnswerResets) {
  Open();
  H2TestClient narrow(10000, false);
  const int32_t id = narrow.Request(GrpcRequestFields("/hold", {{"grpc-timeout", "1S"}}), "");
  ASSERT_TRUE(Feed(narrow.TakeOutput()).ok());
  EXPECT_TRUE(calls.at(0)->call->Write({base::Bytes::Own(std::string(50000, 'x'))}));
  ASSERT_TRUE(narrow.Receive(Drain()));
  EXPECT_EQ(narrow.answer(id).data.size(), 10000u);
  now_ns += 1'000'000'000;
  session->OnTime();
  ASSERT_TRUE(narrow.Receive(Drain()));
  EXPECT_TRUE(narrow.answer(id).closed);
  EXPECT_EQ(narrow.answer(id).error, 8u);
  EXPECT_EQ(calls.at(0)->cancels, 1);
}

TEST_F(GrpcSessionTest, ProducesNoMoreThanAsked) {
  Open();
  H2TestClient wide(1 << 30);
  wide.WindowUpdate(0, 1 << 30);
  const int32_t id = wide.Request(GrpcRequestFields("/hold"), "");
  ASSERT_TRUE(Feed(wide.TakeOutput()).ok());
  const std::string large(8'000'000, 'z');
  EXPECT_TRUE(calls.at(0)->call->Write({base::Bytes::Own(large)}));
  calls.at(0)->call->Finish(base::OkStatus());
  for (;;) {
    const std::string bytes = Drain(100'000);
    EXPECT_LE(bytes.size(), 120'000u);
    ASSERT_TRUE(wide.Receive(bytes));
    if (bytes.empty()) break;
  }
  ASSERT_EQ(wide.answer(id).Messages().size(), 1u);
  EXPECT_TRUE(wide.answer(id).Messages()[0] == large);
  EXPECT_EQ(wide.answer(id).status(), "0");
}

TEST_F(GrpcSessionTest, ResetWhileAFrameWaitsForRoom) {
  Open();
  H2TestClient wide(1 << 30);
  wide.WindowUpdate(0, 1 << 30);
  const int32_t id = wide.Request(GrpcRequestFields("/hold"), "");
  ASSERT_TRUE(Feed(wide.TakeOutput()).ok());
  EXPECT_TRUE(calls.at(0)->call->Write({base::Bytes::Own(std::string(1'000'000, 'z'))}));
  ASSERT_TRUE(wide.Receive(Drain(50'000)));
  wide.Reset(id, 8);
  ASSERT_TRUE(Feed(wide.TakeOutput()).ok());
  EXPECT_EQ(calls.at(0)->cancels, 1);
  const int32_t next = wide.Request(GrpcRequestFields("/echo"), GrpcFrame("after"));
  ASSERT_TRUE(Feed(wide.TakeOutput()).ok());
  ASSERT_TRUE(wide.Receive(Drain()));
  EXPECT_EQ(wide.answer(next).Messages(), std::vector<std::string>{"after"});
}

TEST_F(GrpcSessionTest, DrainLetsCallsEnd) {
  Open();
  const int32_t held = client.Request(GrpcRequestFields("/hold"), "");
  ASSERT_TRUE(Pump());
  session->BeginDrain();
  client.Request(GrpcRequestFields("/echo"), GrpcFrame("under way"));  // sent before GOAWAY is seen
  const std::string crossing = client.TakeOutput();
  ASSERT_TRUE(client.Receive(Drain()));
  EXPECT_TRUE(client.goaway());
  EXPECT_EQ(client.goaway_last_stream(), 0x7fffffff);
  ASSERT_TRUE(Feed(crossing).ok());
  ASSERT_TRUE(Pump());  // the client's answer to the ping finishes it
  EXPECT_EQ(client.goaway_last_stream(), 3);
  EXPECT_EQ(client.goaway_error(), 0u);
  EXPECT_EQ(answer(3).status(), "0");
  EXPECT_FALSE(session->finished());
  calls.at(0)->call->Finish(base::OkStatus());
  ASSERT_TRUE(Pump());
  EXPECT_EQ(answer(held).status(), "0");
  EXPECT_TRUE(session->finished());
}

TEST_F(GrpcSessionTest, KeepalivePingIsAnswered) {
  Open();
  ASSERT_TRUE(Pump());
  session->SendPing();
  EXPECT_TRUE(session->ping_unanswered());
  ASSERT_TRUE(Pump());
  EXPECT_FALSE(session->ping_unanswered());
}

TEST_F(GrpcSessionTest, CallOutlivesItsConnection) {
  Open();
  client.Request(GrpcRequestFields("/hold", {{"x-key", "kept"}}), "");
  ASSERT_TRUE(Pump());
  const std::shared_ptr<GrpcCall> call = calls.at(0)->call;
  calls.clear();
  session.reset();
  EXPECT_EQ(call->metadata().back().second, "kept");
  EXPECT_EQ(call->peer(), "peer:1");
  port->in_own_thread = false;
  call->Finish(base::OkStatus());
}

TEST_F(GrpcSessionTest, FinishInsideTheDispatcherIsAnswered) {
  shared = std::make_unique<GrpcShared>(options, [](std::shared_ptr<GrpcCall> call) {
    call->Finish({base::StatusCode::kPermissionDenied, "no"});
    return std::make_unique<TestHandler>(std::make_shared<TestCall>());
  });
  auto made = GrpcSession::Make(shared.get(), &counters,
                                std::make_shared<const GrpcPeer>(GrpcPeer{"p", port, 1000}), this);
  ASSERT_TRUE(made.ok());
  session = *std::move(made);
  const int32_t id = client.Request(GrpcRequestFields("/any"), GrpcFrame("x"));
  ASSERT_TRUE(Pump());
  EXPECT_EQ(answer(id).status(), "7");
}

}  // namespace
}  // namespace stoker::net::internal
