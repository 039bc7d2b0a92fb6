// Aim: the parser takes what RFC 9112 allows, refuses what it forbids, and says the same whether the
// bytes come at once or in any pieces. Method: tables of raw requests; every way to cut each in two.

#include "http_parser.h"

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace stoker::net::internal {
namespace {

constexpr HttpLimits kLimits{
    .header_bytes_max = 512, .header_count_max = 8, .body_bytes_max = 1000, .chunk_count_max = 4};

struct Outcome {
  int status = 0;  // 0: accepted
  HttpHead head;
  std::string text;  // what head points into
};

// Feeds the first `first` bytes, then all.
Outcome Parse(const std::string& raw, size_t first) {
  Outcome outcome;
  outcome.text = raw;
  HeadScanner scanner;
  HttpFault fault;
  auto step = scanner.Scan(std::string_view(outcome.text).substr(0, first), kLimits, &fault);
  if (step == HeadScanner::Outcome::kMore) step = scanner.Scan(outcome.text, kLimits, &fault);
  if (step == HeadScanner::Outcome::kMore) return outcome.status = -1, std::move(outcome);
  if (step == HeadScanner::Outcome::kComplete) {
    const size_t size = scanner.head_size() - scanner.skipped();
    fault = ParseHead(std::string_view(outcome.text).substr(scanner.skipped(), size), kLimits, &outcome.head);
  }
  outcome.status = fault.status;
  EXPECT_EQ(fault.message.empty(), fault.status == 0);
  return outcome;
}

TEST(HttpParserTest, RequestLineAndFields) {
  const std::string raw =
      "POST /v2/models/a/infer?x=1&y=?2 HTTP/1.1\r\nHost: h\r\nX-Empty:\r\nInference-Header-Content-Length: "
      "\t 12 \t\r\n"
      "Content-Length: 0012\r\nAccept: a  b\xc3\xa9\r\n\r\n";
  const Outcome got = Parse(raw, raw.size());
  ASSERT_EQ(got.status, 0);
  EXPECT_EQ(got.head.method, HttpMethod::kPost);
  EXPECT_EQ(got.head.target, "/v2/models/a/infer?x=1&y=?2");
  EXPECT_EQ(got.head.path, "/v2/models/a/infer");
  EXPECT_EQ(got.head.query, "x=1&y=?2");
  EXPECT_EQ(got.head.minor_version, 1);
  EXPECT_TRUE(got.head.keep_alive);
  EXPECT_TRUE(got.head.has_length);
  EXPECT_EQ(got.head.length, 12u);
  ASSERT_EQ(got.head.headers.size(), 5u);
  EXPECT_EQ(got.head.headers[1].name, "X-Empty");
  EXPECT_EQ(got.head.headers[1].value, "");
  EXPECT_EQ(got.head.headers[2].value, "12");
  EXPECT_EQ(got.head.headers[4].value, "a  b\xc3\xa9");
}

TEST(HttpParserTest, RebaseMovesEveryView) {
  const std::string raw = "GET http://host:1/p?q HTTP/1.1\r\nA: b\r\nEmpty:\r\n\r\n";
  Outcome got = Parse(raw, raw.size());
  ASSERT_EQ(got.status, 0);
  const std::string copy = raw;
  got.head.Rebase(got.text.data(), copy.data());
  got.text.assign(got.text.size(), '#');
  EXPECT_EQ(got.head.target, "http://host:1/p?q");
  EXPECT_EQ(got.head.path, "/p");
  EXPECT_EQ(got.head.query, "q");
  EXPECT_EQ(got.head.headers[0].name, "A");
  EXPECT_EQ(got.head.headers[0].value, "b");
  EXPECT_EQ(got.head.headers[1].name, "Empty");
}

TEST(HttpParserTest, EveryCutGivesTheSameOutcome) {
  const std::string head = "GET / HTTP/1.1\r\n";
  const std::string long_value(600, 'v');
  const std::vector<std::pair<std::string, int>> cases = {
      {head + "\r\n", 0},
      {"\r\n\r\n" + head + "\r\n", 0},
      {"GET /a HTTP/1.0\r\n\r\n", 0},
      {"GET /a HTTP/1.7\r\n\r\n", 0},
      {"BREW /pot HTTP/1.1\r\n\r\n", 0},
      {"OPTIONS * HTTP/1.1\r\n\r\n", 0},
      {"GET http://h HTTP/1.1\r\n\r\n", 0},
      {head + "Content-Length: 5\r\nContent-Length: 5\r\n\r\n", 0},
      {head + "Transfer-Encoding: Chunked\r\n\r\n", 0},
      {head + "Expect: 100-Continue\r\n\r\n", 0},
      {head, -1},
      {head + "A: b\r\n", -1},
      {"G", -1},
      // Malformed request lines.
      {"GET /\r\n\r\n", 400},
      {"GET  / HTTP/1.1\r\n\r\n", 400},
      {"GET / HTTP/1.1 \r\n\r\n", 400},
      {"GET /a b HTTP/1.1\r\n\r\n", 400},
      {" GET / HTTP/1.1\r\n\r\n", 400},
      {"GET\t/ HTTP/1.1\r\n\r\n", 400},
      {"GET / http/1.1\r\n\r\n", 400},
      {"GET / HTTP/11\r\n\r\n", 400},
      {"GET / HTTP/1.1x\r\n\r\n", 400},
      {"G@T / HTTP/1.1\r\n\r\n", 400},
      {std::string("GET /\0 HTTP/1.1\r\n\r\n", 19), 400},
      {"GET /\x7f HTTP/1.1\r\n\r\n", 400},
      {"\x16\x03\x01\x02", 400},
      {"{\"a\":1}\r\n\r\n", 400},
      {"GET / HTTP/2.0\r\n\r\n", 505},
      {"GET / HTTP/0.9\r\n\r\n", 505},
      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
      {std::string(40, 'M') + " / HTTP/1.1\r\n\r\n", 501},
      {"GET /" + long_value + " HTTP/1.1\r\n\r\n", 414},
      {head + "A: " + long_value + "\r\n\r\n", 431},
      {head + "A: b\r\nA: b\r\nA: b\r\nA: b\r\nA: b\r\nA: b\r\nA: b\r\nA: b\r\nA: b\r\n\r\n", 431},
      // Malformed fields.
      {head + "A : b\r\n\r\n", 400},
      {head + "A\r\n\r\n", 400},
      {head + ": b\r\n\r\n", 400},
      {head + "A: b\r\n c\r\n\r\n", 400},
      {head + "A: b\r\n\tc\r\n\r\n", 400},
      {head + " A: b\r\n\r\n", 400},
      {head + "A(: b\r\n\r\n", 400},
      {head + "A: b\x01\r\n\r\n", 400},
      {head + "A: b\rc\r\n\r\n", 400},
      {head + "A: b\r\r\n\r\n", 400},
      {head + "\r\r\n\r\n", 400},
      {head + std::string("A: b\0c\r\n\r\n", 10), 400},
      {head + "A: b\n\r\n", 400},
      {"GET / HTTP/1.1\n\n", 400},
      {"\n", 400},
      {head + "Host: a\r\nHost: b\r\n\r\n", 400},
      // Lengths and codings: what two parsers could read differently.
      {head + "Content-Length: 5\r\nContent-Length: 6\r\n\r\n", 400},
      {head + "Content-Length: 5, 5\r\n\r\n", 400},
      {head + "Content-Length: +5\r\n\r\n", 400},
      {head + "Content-Length: -5\r\n\r\n", 400},
      {head + "Content-Length: 0x5\r\n\r\n", 400},
      {head + "Content-Length: 5 5\r\n\r\n", 400},
      {head + "Content-Length: 5a\r\n\r\n", 400},
      {head + "Content-Length:\r\n\r\n", 400},
      {head + "Content-Length: 18446744073709551621\r\n\r\n", 400},
      {head + "Content-Length: 9999999999999999999\r\n\r\n", 413},
      {head + "Content-Length: 1001\r\n\r\n", 413},
      {head + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
      {head + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n", 400},
      {head + "Transfer-Encoding: chunked, identity\r\n\r\n", 400},
      {head + "Transfer-Encoding: identity\r\n\r\n", 400},
      {head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
      {head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n", 400},
      {head + "Transfer-Encoding: gzip, chunked\r\n\r\n", 400},
      {head + "Transfer-Encoding: xchunked\r\n\r\n", 400},
      {head + "Transfer-Encoding: \x0b"
              "chunked\r\n\r\n",
       400},
      {head + "Transfer-Encoding:\r\n\r\n", 400},
      {head + "Transfer-Encoding: gzip\r\n\r\n", 501},
      {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
      {head + "Expect: tea\r\n\r\n", 417},
  };
  for (const auto& [raw, status] : cases) {
    for (size_t cut = 0; cut <= raw.size(); ++cut) {
      ASSERT_EQ(Parse(raw, cut).status, status) << testing::PrintToString(raw) << " cut at " << cut;
    }
  }
}

TEST(HttpParserTest, KeepAlive) {
  const std::pair<std::string, bool> cases[] = {
      {"GET / HTTP/1.1\r\n\r\n", true},
      {"GET / HTTP/1.1\r\nConnection: close\r\n\r\n", false},
      {"GET / HTTP/1.1\r\nConnection: keep-alive, Close\r\n\r\n", false},
      {"GET / HTTP/1.1\r\nConnection: closed\r\n\r\n", true},
      {"GET / HTTP/1.1\r\nconnection: Upgrade, HTTP2-Settings\r\n\r\n", true},
      {"GET / HTTP/1.0\r\n\r\n", false},
      {"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", true},
      {"GET / HTTP/1.0\r\nConnection: keep-alive\r\nConnection: close\r\n\r\n", false}};
  for (const auto& [raw, wanted] : cases) EXPECT_EQ(Parse(raw, 3).head.keep_alive, wanted) << raw;
}

// Status, payload and the bytes left over.
using Decoded = std::tuple<int, std::string, std::string>;

Decoded Decode(std::string_view raw, size_t piece) {
  ChunkDecoder decoder;
  std::string body;
  for (size_t at = 0; at < raw.size() && !decoder.done() && !decoder.fault();) {
    std::string_view input = raw.substr(at, piece);
    const size_t offered = input.size();
    while (!input.empty() && !decoder.done() && !decoder.fault()) body += decoder.Next(&input, kLimits);
    at += offered - input.size();
    if (decoder.done()) return {0, body, std::string(raw.substr(at))};
  }
  return {decoder.fault() ? decoder.fault().status : -1, body, ""};
}

TEST(HttpParserTest, ChunkedBodiesInPiecesOfEverySize) {
  const std::string many_trailers = "0\r\nA: " + std::string(20000, 'x') + "\r\n\r\n";
  const std::vector<std::pair<std::string, Decoded>> cases = {
      {"0\r\n\r\n", {0, "", ""}},
      {"5\r\nhello\r\n0\r\n\r\nGET", {0, "hello", "GET"}},
      {"5;a=b;c=\"d e\"\r\nhello\r\nA\r\n0123456789\r\n00\r\n\r\n", {0, "hello0123456789", ""}},
      {"3\r\nabc\r\n0\r\nX-Sum: 1\r\nY:\r\n\r\n!", {0, "abc", "!"}},
      {"0000000000000005\r\nhello\r\n0\r\n\r\n", {0, "hello", ""}},
      {"5\r\nhel", {-1, "hel", ""}},
      {"", {-1, "", ""}},
      {"\r\n", {400, "", ""}},
      {"5 \r\nhello\r\n0\r\n\r\n", {400, "", ""}},
      {" 5\r\nhello", {400, "", ""}},
      {"+5\r\nhello", {400, "", ""}},
      {"-5\r\nhello", {400, "", ""}},
      {"0x5\r\nhello", {400, "", ""}},
      {"g\r\n", {400, "", ""}},
      {"5\nhello\r\n0\r\n\r\n", {400, "", ""}},
      {"5\rhello", {400, "", ""}},
      {"5;a\nhello", {400, "", ""}},
      {"5;a\rhello", {400, "", ""}},
      {"5\r\nhelloX\r\n", {400, "hello", ""}},
      {"5\r\nhello\n0\r\n\r\n", {400, "hello", ""}},
      {"5\r\nhello\rX", {400, "hello", ""}},
      {"0\r\n\n", {400, "", ""}},
      {"0\r\n\rX", {400, "", ""}},
      {"0\r\nA : b\r\n\r\n", {400, "", ""}},
      {"0\r\n A: b\r\n\r\n", {400, "", ""}},
      {"0\r\nA: b\n\r\n", {400, "", ""}},
      {"0\r\nA\r\n\r\n", {400, "", ""}},
      {"00000000000000005\r\nhello\r\n", {400, "", ""}},
      {"FFFFFFFFFFFFFFFF\r\n", {413, "", ""}},
      {"10000000000000005\r\n", {400, "", ""}},
      {"3E9\r\n", {413, "", ""}},
      {"3E8\r\n" + std::string(1000, 'z') + "\r\n1\r\n", {413, std::string(1000, 'z'), ""}},
      {"1\r\na\r\n1\r\nb\r\n1\r\nc\r\n1\r\nd\r\n0\r\n\r\n", {0, "abcd", ""}},
      {"1\r\na\r\n1\r\nb\r\n1\r\nc\r\n1\r\nd\r\n1\r\ne\r\n0\r\n\r\n", {400, "abcd", ""}},
      {many_trailers, {431, "", ""}},
      {"1;" + std::string(20000, 'x') + "\r\n", {431, "", ""}},
  };
  for (const auto& [raw, wanted] : cases) {
    for (size_t piece = 1; piece <= std::min<size_t>(raw.size() + 1, 40); ++piece) {
      ASSERT_EQ(Decode(raw, piece), wanted)
          << testing::PrintToString(raw.substr(0, 80)) << " in pieces of " << piece;
    }
  }
}

}  // namespace
}  // namespace stoker::net::internal
