// Philox against the known answers that come with the paper's own code, and the stream made of it.
#include <stoker/base/rng.h>

#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace stoker::base {
namespace {

TEST(RngTest, PhiloxKnownAnswers) {
  constexpr uint32_t kAll = 0xffffffff;
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}),
            (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox4x32({kAll, kAll, kAll, kAll}, {kAll, kAll}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RngTest, StreamIsTheBlocksInOrder) {
  Rng rng(0x0123456789abcdef, 0xfedcba9876543210);
  for (uint32_t block = 0; block < 3; ++block) {
    const PhiloxCounter wanted = Philox4x32({block, 0, 0x76543210, 0xfedcba98}, {0x89abcdef, 0x01234567});
    for (const uint32_t word : wanted) EXPECT_EQ(rng.Next32(), word);
  }
  Rng words(7), doubles(7);
  const uint64_t low = words.Next32();
  const uint64_t value = static_cast<uint64_t>(words.Next32()) << 32 | low;
  EXPECT_EQ(doubles.Next64(), value);
}

TEST(RngTest, SeedsAndStreamsDiffer) {
  std::set<uint64_t> first;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    for (uint64_t stream = 0; stream < 50; ++stream) first.insert(Rng(seed, stream).Next64());
  }
  EXPECT_EQ(first.size(), 2500u);
}

TEST(RngTest, DistributionsHaveTheirShape) {
  Rng rng(1);
  std::vector<int> counts(7);
  double uniform_sum = 0;
  double exponential_sum = 0;
  constexpr int kDraws = 70000;
  for (int i = 0; i < kDraws; ++i) {
    ++counts[rng.Below(7)];
    const double uniform = rng.Uniform();
    ASSERT_GE(uniform, 0);
    ASSERT_LT(uniform, 1);
    uniform_sum += uniform;
    const double gap = rng.Exponential(3);
    ASSERT_GE(gap, 0);
    exponential_sum += gap;
  }
  // Five standard deviations; the seed is fixed, so the outcome is too.
  for (const int count : counts) EXPECT_NEAR(count, 10000, 470);
  EXPECT_NEAR(uniform_sum / kDraws, 0.5, 0.006);
  EXPECT_NEAR(exponential_sum / kDraws, 3, 0.06);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(rng.Below(1), 0u);
  uint64_t top = 0;
  for (int i = 0; i < 100; ++i) top |= rng.Below(UINT64_MAX);
  EXPECT_GT(top, UINT64_MAX / 2);
}

TEST(RngTest, EntropyDiffers) { EXPECT_NE(EntropySeed(), EntropySeed()); }

}  // namespace
}  // namespace stoker::base
