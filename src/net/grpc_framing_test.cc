// Cutting bytes into messages: every way to cut the input gives the same messages, and memory follows
// what has arrived.

#include "grpc_framing.h"

#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace stoker::net::internal {
namespace {

std::string Framed(std::string_view message, int flag = 0) {
  const GrpcPrefix prefix = MakeGrpcPrefix(flag != 0, static_cast<uint32_t>(message.size()));
  return std::string(reinterpret_cast<const char*>(prefix.data()), prefix.size()).append(message);
}

std::span<const std::byte> AsBytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// Feeds `text` in pieces of `piece` bytes.
std::vector<std::string> Cut(std::string_view text, size_t piece, GrpcDeframer* deframer) {
  std::vector<std::string> messages;
  while (!text.empty()) {
    auto data = AsBytes(text.substr(0, piece));
    text.remove_prefix(data.size());
    for (;;) {
      const GrpcDeframer::Step step = deframer->Next(&data);
      EXPECT_NE(step, GrpcDeframer::Step::kFailed) << deframer->status().ToString();
      if (step != GrpcDeframer::Step::kMessage) break;
      messages.emplace_back(deframer->TakeMessage().text());
    }
    EXPECT_TRUE(data.empty());
  }
  return messages;
}

TEST(GrpcFramingTest, PrefixIsBigEndian) {
  const GrpcPrefix expected{std::byte{1}, std::byte{0x12}, std::byte{0x34}, std::byte{0x56}, std::byte{0x78}};
  EXPECT_EQ(MakeGrpcPrefix(true, 0x12345678), expected);
}

TEST(GrpcFramingTest, AnyCutGivesTheSameMessages) {
  std::mt19937 random(11);
  std::vector<std::string> messages;
  std::string wire;
  for (const size_t size : {0u, 1u, 5u, 63u, 64u, 1000u, 65535u, 65536u, 65537u, 300000u, 0u, 2u}) {
    std::string message(size, '\0');
    for (char& c : message) c = static_cast<char>(random());
    wire += Framed(message);
    messages.push_back(std::move(message));
  }
  base::MemoryBudget budget("test", 1 << 20);
  for (const size_t piece : {1u, 2u, 3u, 5u, 7u, 64u, 1023u, 16384u, 70000u, 1000000u}) {
    GrpcDeframer deframer(1 << 20, &budget);
    EXPECT_TRUE(Cut(wire, piece, &deframer) == messages) << "pieces of " << piece;
    EXPECT_FALSE(deframer.in_message());
    EXPECT_EQ(budget.used_bytes(), 0u);
  }
}

TEST(GrpcFramingTest, ClaimsCostNothing) {
  base::MemoryBudget budget("test", 1 << 20);
  GrpcDeframer deframer(SIZE_MAX, &budget);
  const std::string claim("\0\xff\xff\xff\xff", 5);
  EXPECT_TRUE(Cut(claim + "abc", 8, &deframer).empty());
  EXPECT_TRUE(deframer.in_message());
  EXPECT_EQ(budget.used_bytes(), 64u << 10);
  deframer.Clear();
  EXPECT_EQ(budget.used_bytes(), 0u);
}

TEST(GrpcFramingTest, BudgetIsAHardBound) {
  base::MemoryBudget budget("test", 100'000);
  GrpcDeframer first(1 << 20, &budget);
  GrpcDeframer second(1 << 20, &budget);
  const std::string wire = Framed(std::string(90'000, 'x'));
  EXPECT_TRUE(Cut(wire.substr(0, 50'000), 1000, &first).empty());
  auto data = AsBytes(std::string_view(wire).substr(0, 50'000));
  EXPECT_EQ(second.Next(&data), GrpcDeframer::Step::kFailed);
  EXPECT_EQ(second.status().code(), base::StatusCode::kResourceExhausted);
  // A message that is there at once never waits in memory, so it needs none of the budget.
  GrpcDeframer third(1 << 20, &budget);
  EXPECT_EQ(Cut(wire, wire.size(), &third).size(), 1u);
}

TEST(GrpcFramingTest, FlagAndSizeAreChecked) {
  base::MemoryBudget budget("test", 1 << 20);
  const auto fail = [&](std::string_view text) {
    GrpcDeframer deframer(10, &budget);
    auto data = AsBytes(text);
    EXPECT_EQ(deframer.Next(&data), GrpcDeframer::Step::kFailed);
    return deframer.status().code();
  };
  EXPECT_EQ(fail(Framed(std::string(11, 'x'))), base::StatusCode::kResourceExhausted);
  EXPECT_EQ(fail(std::string("\2\0\0\0\1x", 6)), base::StatusCode::kInternal);
  EXPECT_EQ(fail(std::string("\xff\0\0\0\1x", 6)), base::StatusCode::kInternal);
  GrpcDeframer deframer(10, &budget);
  const std::string compressed("\1\0\0\0\2ab", 7);
  auto data = AsBytes(compressed);
  EXPECT_EQ(deframer.Next(&data), GrpcDeframer::Step::kMessage);
  EXPECT_TRUE(deframer.compressed());
}

}  // namespace
}  // namespace stoker::net::internal
