// Peers that mean harm: each of the known ways to make an HTTP/2 server work or remember more than the
// peer does ends with the connection (or the call) refused, after a bounded effort.

#include "grpc_session_fixture.h"

namespace stoker::net::internal {
namespace {

constexpr uint32_t kRefusedStream = 7;
constexpr uint32_t kCancel = 8;
constexpr uint32_t kEnhanceYourCalm = 11;

constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
constexpr uint8_t kData = 0, kHeaders = 1, kPriority = 2, kReset = 3, kSettings = 4, kPush = 5, kPing = 6,
                  kWindowUpdate = 8, kContinuation = 9;
constexpr uint8_t kAck = 1, kEndStream = 1, kEndHeaders = 4;

class GrpcFloodTest : public GrpcSessionFixture {
 protected:
  void SetUp() override {
    Open();
    ASSERT_TRUE(Pump());
  }
  // Repeats `frame` until the session gives the peer up; the number of frames it took.
  size_t Flood(std::string_view frame, size_t count_max = 100'000) {
    size_t count = 0;
    while (count < count_max && session->offence() == nullptr && !session->finished()) {
      ++count;
      if (!Feed(frame).ok()) break;
    }
    return count;
  }
  void ExpectCalmed() {
    client.Receive(Drain());
    EXPECT_TRUE(client.goaway());
    EXPECT_EQ(client.goaway_error(), kEnhanceYourCalm);
    EXPECT_TRUE(session->finished());
    EXPECT_NE(session->offence(), nullptr);
  }
};

TEST_F(GrpcFloodTest, RapidResetIsCutOff) {
  int opened = 0;
  for (; opened < 2000 && session->offence() == nullptr; ++opened) {
    const int32_t id = client.Request(GrpcRequestFields("/hold"), GrpcFrame("x"), false);
    std::string bytes = client.TakeOutput();
    bytes += RawFrame(kReset, 0, static_cast<uint32_t>(id), std::string("\0\0\0\x08", 4));
    ASSERT_TRUE(Feed(bytes).ok());
  }
  EXPECT_GT(opened, 100);
  EXPECT_LE(opened, 202);
  ExpectCalmed();
  session.reset();
  for (const auto& call : calls) EXPECT_EQ(call->cancels, 1);
}

TEST_F(GrpcFloodTest, CancellingAtAnOrdinaryRateIsFine) {
  for (int i = 0; i < 2000; ++i) {
    const int32_t id = client.Request(GrpcRequestFields("/hold"), GrpcFrame("x"), false);
    ASSERT_TRUE(Pump());
    client.Reset(id, kCancel);
    ASSERT_TRUE(Pump());
    now_ns += 10'000'000;
  }
  EXPECT_FALSE(client.goaway());
  EXPECT_EQ(session->open_calls(), 0u);
}

// The server can be made to do the resetting ("MadeYouReset"): these count as well.
TEST_F(GrpcFloodTest, ProvokedResetsAreCutOff) {
  int opened = 0;
  for (; opened < 2000 && session->offence() == nullptr && !session->finished(); ++opened) {
    const int32_t id = client.Request(GrpcRequestFields("/hold"), GrpcFrame("x"), false);
    std::string bytes = client.TakeOutput();
    bytes += RawFrame(kWindowUpdate, 0, static_cast<uint32_t>(id), "\x7f\xff\xff\xff");  // beyond 2^31 - 1
    ASSERT_TRUE(Feed(bytes).ok());
    Drain();
  }
  EXPECT_GT(opened, 100);
  EXPECT_LE(opened, 202);
  EXPECT_NE(session->offence(), nullptr);
}

TEST_F(GrpcFloodTest, ControlFramesAreToleratedUpToTheLimit) {
  const std::string ping = RawFrame(kPing, 0, 0, "12345678");
  for (int i = 0; i < 500; ++i) ASSERT_TRUE(Feed(ping).ok());
  for (int i = 0; i < 100; ++i)
    ASSERT_TRUE(Feed(RawFrame(0x42, 0xff, 77, std::string(static_cast<size_t>(i), 'u'))).ok());
  ASSERT_TRUE(Pump());
  EXPECT_FALSE(client.goaway());
  const int32_t id = client.Request(GrpcRequestFields("/echo"), GrpcFrame("still there"));
  ASSERT_TRUE(Pump());
  EXPECT_EQ(answer(id).status(), "0");
}

TEST_F(GrpcFloodTest, PingFloodIsCutOff) {
  EXPECT_LE(Flood(RawFrame(kPing, 0, 0, "12345678")), 1001u);
  ExpectCalmed();
}

TEST_F(GrpcFloodTest, PingFloodOfAPeerThatReadsIsCutOff) {
  size_t count = 0;
  for (; count < 5000 && session->offence() == nullptr; ++count) {
    ASSERT_TRUE(Feed(RawFrame(kPing, 0, 0, "12345678")).ok());
    client.Receive(Drain());
  }
  EXPECT_LE(count, 1001u);
  ExpectCalmed();
}

TEST_F(GrpcFloodTest, SettingsFloodIsCutOff) {
  EXPECT_LE(Flood(RawFrame(kSettings, 0, 0, std::string("\0\4\0\1\0\0", 6))), 1001u);
  ExpectCalmed();
}

TEST_F(GrpcFloodTest, PriorityAndUnknownFrameFloodsAreCutOff) {
  for (const uint8_t type : {kPriority, uint8_t{0x10}, uint8_t{0x42}}) {
    Open();
    ASSERT_TRUE(Feed(std::string(kPreface) + RawFrame(kSettings, 0, 0, "")).ok());
    const std::string payload = type == 0x10 ? std::string("\0\0\0\1u=1", 7) : std::string("\0\0\0\1\0", 5);
    EXPECT_LE(Flood(RawFrame(type, 0, type == 0x10 ? 0 : 3, payload)), 1001u) << int{type};
    EXPECT_NE(session->offence(), nullptr) << int{type};
  }
}

TEST_F(GrpcFloodTest, EmptyDataFloodIsCutOff) {
  const int32_t id = client.Request(GrpcRequestFields("/hold"), "", false);
  ASSERT_TRUE(Pump());
  EXPECT_LE(Flood(RawFrame(kData, 0, static_cast<uint32_t>(id), "")), 1001u);
  ExpectCalmed();
}

TEST_F(GrpcFloodTest, PaddingFloodIsCutOff) {
  const int32_t id = client.Request(GrpcRequestFields("/hold"), "", false);
  ASSERT_TRUE(Pump());
  EXPECT_LE(
      Flood(RawFrame(kData, 8, static_cast<uint32_t>(id), std::string("\xff") + std::string(255, '\0'))),
      1001u);
  ExpectCalmed();
}

TEST_F(GrpcFloodTest, ContinuationFloodIsCutOff) {
  for (const std::string& fragment : {std::string(), std::string("\x82"), std::string(16000, '\x82')}) {
    Open();
    ASSERT_TRUE(Feed(std::string(kPreface) + RawFrame(kSettings, 0, 0, "")).ok());
    ASSERT_TRUE(Feed(RawFrame(kHeaders, 0, 1, "\x82")).ok());
    EXPECT_LE(Flood(RawFrame(kContinuation, 0, 1, fragment)), 10u);
    EXPECT_TRUE(calls.empty());
  }
}

// One byte on the wire stands for a field of 4,000: the list is counted as it would be stored.
TEST_F(GrpcFloodTest, HeaderBombIsCutOff) {
  std::string block = "\x83\x86\x84\x41\x01x";  // POST, http, /, an authority
  block += std::string("\x40\x01") + "a" + std::string("\x7f\xa1\x1e", 3) +
           std::string(4000, 'v');  // enters the table
  EXPECT_EQ(block.size(), 6u + 6u + 4000u);
  block += std::string(12'000, '\xbe');
  ASSERT_TRUE(Feed(RawFrame(kHeaders, kEndHeaders | kEndStream, 1, block)).ok());
  ExpectCalmed();
  EXPECT_TRUE(calls.empty());
}

TEST_F(GrpcFloodTest, LargeHeaderListRefusesTheCallOnly) {
  options.header_bytes_max = 16 << 10;
  Open();
  H2TestClient fresh;
  TestFields many;
  for (int i = 0; i < 10; ++i) many.emplace_back("x-large", std::string(3000, 'v'));
  const int32_t id = fresh.Request(GrpcRequestFields("/hold", many), "");
  const int32_t next = fresh.Request(GrpcRequestFields("/echo"), "");
  ASSERT_TRUE(Feed(fresh.TakeOutput()).ok());
  ASSERT_TRUE(fresh.Receive(Drain()));
  EXPECT_EQ(fresh.answer(id).status(), "8");
  EXPECT_EQ(fresh.answer(next).status(), "0");
  EXPECT_EQ(calls.size(), 1u);
}

TEST_F(GrpcFloodTest, StreamsBeyondTheLimitAreRefused) {
  options.streams_max = 10;
  Open();
  H2TestClient eager;  // does not know the limit yet, as at the start of any connection
  std::vector<int32_t> ids;
  ids.reserve(15);
  for (int i = 0; i < 15; ++i) ids.push_back(eager.Request(GrpcRequestFields("/hold"), ""));
  ASSERT_TRUE(Feed(eager.TakeOutput()).ok());
  ASSERT_TRUE(eager.Receive(Drain()));
  EXPECT_EQ(calls.size(), 10u);
  for (int i = 0; i < 15; ++i)
    EXPECT_EQ(eager.answer(ids[static_cast<size_t>(i)]).error, i < 10 ? 0 : kRefusedStream);
  for (const auto& call : calls) call->call->Finish(base::OkStatus());
  ASSERT_TRUE(eager.Receive(Drain()));
  for (int i = 0; i < 10; ++i) EXPECT_EQ(eager.answer(ids[static_cast<size_t>(i)]).status(), "0");
  // Once it has confirmed the limit, to break it is an offence.
  ASSERT_TRUE(Feed(eager.TakeOutput()).ok());
  H2TestClient ignorant;
  std::string bytes;
  for (int i = 0; i < 30; ++i) ignorant.Request(GrpcRequestFields("/hold"), "");
  bytes = ignorant.TakeOutput();
  bytes.erase(0, kPreface.size() + 9 + 12 + (bytes[kPreface.size() + 2] - 12));  // preface and SETTINGS
  Open();
  ASSERT_TRUE(Feed(std::string(kPreface) + RawFrame(kSettings, 0, 0, "")).ok());
  Drain();
  ASSERT_TRUE(Feed(RawFrame(kSettings, kAck, 0, "")).ok());
  ASSERT_TRUE(Feed(bytes).ok());
  H2TestClient reader;
  reader.TakeOutput();
  reader.Receive(Drain());
  EXPECT_TRUE(session->finished());
  EXPECT_LE(session->open_calls(), 10u);
}

TEST_F(GrpcFloodTest, PeerWithoutWindowIsBounded) {
  options.write_backlog_bytes_max = 100'000;
  Open();
  H2TestClient mean(0, false);
  const int32_t id = mean.Request(GrpcRequestFields("/hold"), "");
  ASSERT_TRUE(Feed(mean.TakeOutput()).ok());
  ASSERT_TRUE(mean.Receive(Drain()));
  ASSERT_TRUE(Feed(mean.TakeOutput()).ok());
  const auto call = calls.back();
  int written = 0;
  while (written < 1000 && call->call->Write({base::Bytes::Own(std::string(10'000, 'x'))})) ++written;
  EXPECT_EQ(written, 10);
  mean.Receive(Drain());
  // Nothing was read, so nothing more is begun.
  const int32_t refused = mean.Request(GrpcRequestFields("/hold"), "");
  ASSERT_TRUE(Feed(mean.TakeOutput()).ok());
  mean.Receive(Drain());
  EXPECT_EQ(mean.answer(refused).error, kRefusedStream);
  // And in the end the call goes.
  for (int64_t waited = 0; waited < 100 && call->cancels == 0; ++waited) {
    now_ns += 1'000'000'000;
    if (session->next_time_ns() <= now_ns) session->OnTime();
    if (waited < 55) {
      ASSERT_EQ(call->cancels, 0);
    }
  }
  mean.Receive(Drain());
  EXPECT_EQ(call->cancels, 1);
  EXPECT_TRUE(mean.answer(id).closed);
  EXPECT_EQ(session->open_calls(), 0u);
  const int32_t after = mean.Request(GrpcRequestFields("/hold"), "");
  ASSERT_TRUE(Feed(mean.TakeOutput()).ok());
  EXPECT_EQ(mean.answer(after).error, 0u);
  EXPECT_EQ(calls.size(), 2u);
}

TEST_F(GrpcFloodTest, SlowReaderIsNotCutWhileItReads) {
  Open();
  H2TestClient slow(1000, false);
  const int32_t id = slow.Request(GrpcRequestFields("/hold"), "");
  ASSERT_TRUE(Feed(slow.TakeOutput()).ok());
  calls.back()->call->Write({base::Bytes::Own(std::string(20'000, 'x'))});
  calls.back()->call->Finish(base::OkStatus());
  for (int i = 0; i < 25; ++i) {
    ASSERT_TRUE(slow.Receive(Drain()));
    slow.WindowUpdate(id, 1000);
    ASSERT_TRUE(Feed(slow.TakeOutput()).ok());
    now_ns += 30'000'000'000;
    if (session->next_time_ns() <= now_ns) session->OnTime();
  }
  EXPECT_EQ(slow.answer(id).status(), "0");
  EXPECT_EQ(slow.answer(id).data.size(), 20'005u);
}

TEST_F(GrpcFloodTest, MessageThatStopsIsCancelled) {
  const int32_t id = client.Request(GrpcRequestFields("/hold"),
                                    GrpcFrame("whole") + std::string("\0\0\0\x10\0abc", 8), false);
  const int32_t idle =
      client.Request(GrpcRequestFields("/hold"), GrpcFrame("whole"), false);  // may wait for ever
  ASSERT_TRUE(Pump());
  EXPECT_GT(shared->budget.used_bytes(), 0u);
  for (int i = 0; i < 100 && calls.at(0)->cancels == 0; ++i) {
    now_ns += 1'000'000'000;
    if (session->next_time_ns() <= now_ns) session->OnTime();
  }
  ASSERT_TRUE(Pump());
  EXPECT_EQ(answer(id).status(), "1");
  EXPECT_EQ(calls.at(0)->cancels, 1);
  EXPECT_EQ(answer(idle).status(), "");
  EXPECT_EQ(shared->budget.used_bytes(), 0u);
}

TEST_F(GrpcFloodTest, MessagesThatWaitForAnswersAreCounted) {
  options.buffered_bytes_max = 1'000'000;
  Open();
  H2TestClient many;
  std::vector<int32_t> ids;
  for (int i = 0; i < 8; ++i) {
    ids.push_back(many.Request(GrpcRequestFields("/keep"), GrpcFrame(std::string(200'000, 'x'))));
    for (int round = 0; round < 10; ++round) {
      ASSERT_TRUE(Feed(many.TakeOutput()).ok());
      ASSERT_TRUE(many.Receive(Drain()));
    }
  }
  EXPECT_EQ(shared->held->used_bytes(), 1'000'000u);
  EXPECT_EQ(shared->budget.used_bytes(), 0u);
  for (size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(many.answer(ids[i]).status(), i < 5 ? "" : "8") << i;
  calls[0]->kept.clear();  // whoever works on it lets go
  EXPECT_EQ(shared->held->used_bytes(), 800'000u);
}

TEST_F(GrpcFloodTest, UnpackedMessagesAreBoundedAndCounted) {
  options.unpacked_bytes_max = 300'000;
  options.buffered_bytes_max = 500'000;
  Open();
  const auto packed = [](size_t bytes) {
    const base::Bytes plain = base::Bytes::Own(std::string(bytes, 'x'));
    return GrpcFrame(Compress(ContentCoding::kGzip, {&plain, 1}).text(), 1);
  };
  const TestFields fields = GrpcRequestFields("/keep", {{"grpc-encoding", "gzip"}});
  H2TestClient fresh;
  const int32_t fits = fresh.Request(fields, packed(300'000));
  const int32_t too_large = fresh.Request(fields, packed(300'001));
  const int32_t too_many = fresh.Request(fields, packed(300'000));
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(Feed(fresh.TakeOutput()).ok());
    ASSERT_TRUE(fresh.Receive(Drain()));
  }
  EXPECT_EQ(fresh.answer(fits).status(), "");
  EXPECT_EQ(fresh.answer(too_large).status(), "8");
  EXPECT_EQ(fresh.answer(too_many).status(), "8");
  EXPECT_EQ(shared->held->used_bytes(), 300'000u);
}

TEST_F(GrpcFloodTest, BudgetOfReceiveMemoryHolds) {
  options.buffered_bytes_max = 1'000'000;
  Open();
  H2TestClient many;
  std::vector<int32_t> ids;
  ids.reserve(40);
  for (int i = 0; i < 40; ++i) {  // each begins a message of 200,000 bytes
    ids.push_back(many.Request(GrpcRequestFields("/hold"),
                               GrpcFrame(std::string(200'000, 'x')).substr(0, 50'000), false));
  }
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(Feed(many.TakeOutput()).ok());
    ASSERT_TRUE(many.Receive(Drain()));
    EXPECT_LE(shared->budget.used_bytes(), 1'000'000u);
  }
  int refused = 0;
  for (const int32_t id : ids) refused += many.answer(id).status() == "8" ? 1 : 0;
  EXPECT_EQ(refused, 40 - 15);  // 64 KiB each
}

TEST_F(GrpcFloodTest, NonsenseEndsTheConnection) {
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), std::string("PRI * HTTP/2.0\r\n\r\nXX"),
        std::string("\x16\x03\x01"),
        std::string(kPreface) + RawFrame(kPing, 0, 0, "12345678"),  // no SETTINGS first
        std::string(kPreface) + RawFrame(kSettings, 0, 0, "") + RawFrame(kPing, 0, 0, "123"),  // wrong size
        std::string(kPreface) + RawFrame(kSettings, 0, 0, "") +
            RawFrame(kPush, kEndHeaders, 1, std::string("\0\0\0\2", 4)),
        std::string(kPreface) + RawFrame(kSettings, 0, 0, "") + RawFrame(kData, 0, 1, "abc"),  // never opened
        std::string(kPreface) + RawFrame(kSettings, 0, 0, "") +
            RawFrame(kHeaders, kEndHeaders, 2, "\x82"),  // even
        std::string(kPreface) + RawFrame(kSettings, 0, 0, "") +
            RawFrame(kHeaders, kEndHeaders, 1, "\xff\xff\xff\xff\xff"),
        std::string(kPreface) + RawFrame(kSettings, 0, 0, "") +
            RawFrame(kContinuation, kEndHeaders, 1, "\x82"),
        std::string(kPreface) + RawFrame(kSettings, 0, 0, "") + RawFrame(kData, 0, 0, "abc")}) {
    Open();
    const bool failed = !Feed(bytes).ok();
    Drain();
    EXPECT_TRUE(failed || session->finished()) << testing::PrintToString(bytes);
    EXPECT_TRUE(calls.empty());
  }
}

TEST_F(GrpcFloodTest, BadPseudoHeadersEndTheStreamOnly) {
  for (const TestFields& fields :
       {TestFields{{":method", "POST"}, {":scheme", "http"}},
        TestFields{{":method", "POST"}, {":scheme", "http"}, {":path", "/hold"}, {":path", "/hold"}},
        GrpcRequestFields("/hold", {{"connection", "close"}}),
        GrpcRequestFields("/hold", {{"te", "gzip"}})}) {
    client.Request(fields, "");
    ASSERT_TRUE(Feed(client.TakeOutput()).ok());
    client.Receive(Drain());
  }
  EXPECT_TRUE(calls.empty());
  const int32_t id = client.Request(GrpcRequestFields("/echo"), "");
  ASSERT_TRUE(Pump());
  EXPECT_EQ(answer(id).status(), "0");
}

}  // namespace
}  // namespace stoker::net::internal
