// The small encodings against hand-made tables, and against their inverses on random input.

#include "grpc_wire.h"

#include <random>

#include <gtest/gtest.h>

namespace stoker::net::internal {
namespace {

TEST(GrpcWireTest, TimeoutsAreParsedStrictly) {
  const std::pair<const char*, int64_t> good[] = {{"1H", 3'600'000'000'000},
                                                  {"2M", 120'000'000'000},
                                                  {"3S", 3'000'000'000},
                                                  {"4m", 4'000'000},
                                                  {"5u", 5'000},
                                                  {"6n", 6},
                                                  {"0S", 0},
                                                  {"00000001S", 1'000'000'000},
                                                  {"99999999n", 99'999'999},
                                                  {"99999999S", 99'999'999'000'000'000},
                                                  {"99999999H", 1'000'000'000'000'000'000}};
  for (const auto& [text, ns] : good) EXPECT_EQ(ParseGrpcTimeout(text), ns) << text;
  for (const char* text : {"", "S", "1", "1s", "1h", "-1S", "+1S", "1.5S", " 1S", "1 S", "1S ", "123456789S",
                           "1SS", "x1S", "0x1S"}) {
    EXPECT_EQ(ParseGrpcTimeout(text), std::nullopt) << text;
  }
}

TEST(GrpcWireTest, ContentTypes) {
  for (const char* text : {"application/grpc", "application/grpc+proto", "application/grpc;charset=utf-8"}) {
    EXPECT_TRUE(IsGrpcContentType(text)) << text;
  }
  for (const char* text :
       {"", "application/grp", "application/grpc-web", "application/grpcx", "text/plain"}) {
    EXPECT_FALSE(IsGrpcContentType(text)) << text;
  }
}

TEST(GrpcWireTest, AcceptedCodings) {
  EXPECT_TRUE(AcceptsCoding("gzip", "gzip"));
  EXPECT_TRUE(AcceptsCoding("identity, deflate , gzip", "gzip"));
  EXPECT_TRUE(AcceptsCoding("identity,gzip,", "gzip"));
  for (const char* text : {"", "identity", "gzipx", "xgzip", "identity,gzi", ",,"}) {
    EXPECT_FALSE(AcceptsCoding(text, "gzip")) << text;
  }
}

TEST(GrpcWireTest, MessagesAreCutBetweenCharacters) {
  EXPECT_EQ(EncodeGrpcMessage("plain", 100), "plain");
  EXPECT_EQ(EncodeGrpcMessage("a\r\n%\x7f~ ", 100), "a%0D%0A%25%7F~ ");
  EXPECT_EQ(EncodeGrpcMessage("aé", 7), "a%C3%A9");
  EXPECT_EQ(EncodeGrpcMessage("aé", 6), "a");
  EXPECT_EQ(EncodeGrpcMessage("a%", 3), "a");
  EXPECT_EQ(EncodeGrpcMessage("abc", 2), "ab");
  EXPECT_EQ(EncodeGrpcMessage("abc", 0), "");
}

TEST(GrpcWireTest, Base64IsInvertedByItself) {
  EXPECT_EQ(EncodeBase64(""), "");
  EXPECT_EQ(EncodeBase64("f"), "Zg");
  EXPECT_EQ(EncodeBase64("fo"), "Zm8");
  EXPECT_EQ(EncodeBase64("foo"), "Zm9v");
  EXPECT_EQ(DecodeBase64("Zg=="), "f");
  EXPECT_EQ(DecodeBase64("Zm8="), "fo");
  for (const char* text : {"Z", "Z===", "Zg==Zg==", "Zm 9", "Zm-_", "=", "===="}) {
    EXPECT_EQ(DecodeBase64(text), std::nullopt) << text;
  }
  std::mt19937 random(7);  // a fixed seed: the same strings each time
  for (size_t size = 0; size < 200; ++size) {
    std::string data(size, '\0');
    for (char& c : data) c = static_cast<char>(random());
    std::string text = EncodeBase64(data);
    EXPECT_EQ(DecodeBase64(text), data);
    while (text.size() % 4 != 0) text += '=';
    EXPECT_EQ(DecodeBase64(text), data);
  }
}

TEST(GrpcWireTest, MetadataNamesAndValues) {
  EXPECT_TRUE(IsMetadataName("x-key_1.bin"));
  for (const char* name : {"", "X-Key", ":path", "a b", "é"}) EXPECT_FALSE(IsMetadataName(name)) << name;
  EXPECT_TRUE(IsMetadataValue(" any ~ text"));
  EXPECT_FALSE(IsMetadataValue("line\nbreak"));
  EXPECT_FALSE(IsMetadataValue("\x80"));
}

}  // namespace
}  // namespace stoker::net::internal
