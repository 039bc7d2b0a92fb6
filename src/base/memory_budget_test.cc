// The memory budget: never beyond the limit, everything comes back, the peak is remembered.
#include <stoker/base/memory_budget.h>

#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <stoker/base/rng.h>
#include <stoker/base/testing/random_seed.h>

namespace stoker::base {
namespace {

TEST(MemoryBudgetTest, ReservesGrowsAndReleases) {
  MemoryBudget budget("tests", 100);
  Result<MemoryBudget::Reservation> first = budget.Reserve(60);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(budget.Reserve(41).status().message(),
            "the memory budget for tests is exhausted: 41 bytes wanted, 40 of 100 free; "
            "try again later or raise the limit");
  EXPECT_EQ(budget.Reserve(SIZE_MAX).status().code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(first->Grow(40).ok());
  EXPECT_EQ(first->bytes(), 100u);
  EXPECT_FALSE(first->Grow(1).ok());
  EXPECT_TRUE(budget.Reserve(0).ok());
  MemoryBudget::Reservation moved = std::move(*first);
  EXPECT_EQ(budget.used_bytes(), 100u);
  moved.Release();
  moved.Release();
  EXPECT_EQ(budget.used_bytes(), 0u);
  moved = *budget.Reserve(30);
  moved = *budget.Reserve(20);
  EXPECT_EQ(budget.used_bytes(), 20u);
  EXPECT_EQ(budget.peak_bytes(), 100u);
}

TEST(MemoryBudgetTest, ChargedBytesCountUntilTheLastCopyGoes) {
  auto budget = std::make_shared<MemoryBudget>("tests", 10);
  Result<Bytes> charged = Charge(budget, Bytes::Own("12345678"));
  ASSERT_TRUE(charged.ok());
  EXPECT_EQ(budget->used_bytes(), 8u);
  EXPECT_EQ(Charge(budget, Bytes::Own("123")).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(budget->used_bytes(), 8u);
  Bytes slice = charged->Slice(2, 3);
  *charged = Bytes();
  EXPECT_EQ(budget->used_bytes(), 8u);
  EXPECT_EQ(slice.text(), "345");
  const std::weak_ptr<MemoryBudget> weak = budget;
  budget.reset();
  EXPECT_FALSE(weak.expired());  // the bytes keep it
  slice = Bytes();
  EXPECT_TRUE(weak.expired());
}

TEST(MemoryBudgetTest, HoldsUnderContention) {
  MemoryBudget budget("tests", 1000);
  const uint64_t seed = testing::RandomSeed();
  std::vector<std::thread> threads;
  std::atomic<size_t> granted = 0;  // counted outside, to compare
  for (uint64_t i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      Rng rng(seed, i);
      for (int round = 0; round < 5000; ++round) {
        const size_t wanted = rng.Below(500);
        Result<MemoryBudget::Reservation> got = budget.Reserve(wanted);
        if (!got.ok()) continue;
        EXPECT_LE(granted += wanted, 1000u);
        granted -= wanted;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(budget.used_bytes(), 0u);
  EXPECT_LE(budget.peak_bytes(), 1000u);
  EXPECT_GT(budget.peak_bytes(), 0u);
}

}  // namespace
}  // namespace stoker::base
