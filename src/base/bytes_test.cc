// Bytes: what a view keeps alive, slices, and memory that becomes read-only.
#include <stoker/base/bytes.h>

#include <cstring>

#include <gtest/gtest.h>

namespace stoker::base {
namespace {

TEST(BytesTest, OwnsSharesAndSlices) {
  Bytes slice;
  std::weak_ptr<const void> owner;
  {
    const Bytes whole = Bytes::Own("a text long enough for the heap, whatever the library");
    owner = whole.owner();
    slice = whole.Slice(2, 4);
    EXPECT_EQ(slice.data(), whole.data() + 2);
    EXPECT_EQ(whole.Slice(whole.size(), 0).size(), 0u);
  }
  EXPECT_EQ(slice.text(), "text");
  EXPECT_FALSE(owner.expired());
  slice = Bytes();
  EXPECT_TRUE(owner.expired());
  EXPECT_TRUE(slice.empty());
}

TEST(BytesTest, StaticHasNoOwner) {
  const Bytes bytes = Bytes::Static("abc");
  EXPECT_EQ(bytes.text(), "abc");
  EXPECT_EQ(bytes.owner(), nullptr);
}

TEST(BytesTest, MutableBytesAreAlignedAndFreeze) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{1000}}) {
    MutableBytes memory = MutableBytes::Allocate(size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.data()) % 64, 0u);
    EXPECT_EQ(memory.size(), size);
    std::memset(memory.data(), 'x', size);
    const std::byte* const start = memory.data();
    const Bytes frozen = std::move(memory).Freeze(size / 2);
    EXPECT_EQ(frozen.data(), start);
    EXPECT_EQ(frozen.text(), std::string(size / 2, 'x'));
  }
}

TEST(BytesDeathTest, SlicesBeyondTheEndAreBugs) {
  EXPECT_DEATH(Bytes::Static("abc").Slice(2, 2), "CHECK failed");
  EXPECT_DEATH(Bytes::Static("abc").Slice(4, 0), "CHECK failed");
  EXPECT_DEATH(Bytes::Static("abc").Slice(1, SIZE_MAX), "CHECK failed");
}

}  // namespace
}  // namespace stoker::base
