// The queue of bytes against the plain string it stands for, over random sequences of calls.

#include "h2_output.h"

#include <algorithm>
#include <array>
#include <random>

#include <gtest/gtest.h>

namespace stoker::net::internal {
namespace {

TEST(H2OutputTest, ComesOutAsItWentIn) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    H2Output output;
    std::string expected;
    for (int step = 0; step < 100; ++step) {
      std::string text(random() % (random() % 4 == 0 ? 5000 : 50), '\0');
      for (char& c : text) c = static_cast<char>(random());
      expected += text;
      if (random() % 2 == 0) {
        output.Copy(std::as_bytes(std::span(text.data(), text.size())));
      } else {
        output.Share(base::Bytes::Own(std::move(text)));
      }
      ASSERT_EQ(output.size(), expected.size());
      if (random() % 3 != 0) continue;
      std::array<iovec, 3> pieces;
      const size_t count = output.Gather(pieces);
      std::string front;
      for (size_t i = 0; i < count; ++i)
        front.append(static_cast<const char*>(pieces[i].iov_base), pieces[i].iov_len);
      ASSERT_TRUE(expected.starts_with(front));
      ASSERT_EQ(front.empty(), expected.empty());
      const size_t taken = random() % 2 == 0 ? front.size() : random() % (front.size() + 1);
      output.Consume(taken);
      expected.erase(0, taken);
      ASSERT_EQ(output.size(), expected.size());
    }
  }
}

TEST(H2OutputTest, LargePiecesAreNotCopied) {
  H2Output output;
  const base::Bytes large = base::Bytes::Own(std::string(100'000, 'x'));
  output.Copy(large.span().first(9));
  output.Share(large);
  std::array<iovec, 4> pieces;
  ASSERT_EQ(output.Gather(pieces), 2u);
  EXPECT_EQ(pieces[1].iov_base, large.data());
  EXPECT_EQ(large.owner().use_count(), 2);
  output.Consume(output.size());
  EXPECT_EQ(large.owner().use_count(), 1);
}

}  // namespace
}  // namespace stoker::net::internal
