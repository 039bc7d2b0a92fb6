// Messages from pieces of text and numbers.
#include <stoker/base/str_cat.h>

#include <cstdint>
#include <limits>

#include <gtest/gtest.h>

namespace stoker::base {
namespace {

TEST(StrCatTest, JoinsTextAndNumbers) {
  const std::string text = "b";
  EXPECT_EQ(StrCat(), "");
  EXPECT_EQ(
      StrCat("a", text, std::string_view("c"), 'd', 1, -2L, uint8_t{200}, true, false, 0.1, 0.1f, 1e300),
      "abcd1-2200truefalse0.10.11e+300");
  EXPECT_EQ(StrCat(INT64_MIN, " ", UINT64_MAX), "-9223372036854775808 18446744073709551615");
  EXPECT_EQ(StrCat(std::numeric_limits<double>::lowest(), " ", std::numeric_limits<float>::infinity()),
            "-1.7976931348623157e+308 inf");
  const char* none = nullptr;
  EXPECT_EQ(StrCat("[", none, "]"), "[]");
  std::string out = "x";
  StrAppend(&out, 1, "y", 2.5);
  EXPECT_EQ(out, "x1y2.5");
}

TEST(StrCatTest, QuotedEscapesAndCuts) {
  EXPECT_EQ(Quoted("plain é"), "\"plain é\"");
  EXPECT_EQ(Quoted("a\"\\\n\x7f"), R"("a\"\\\x0a\x7f")");
  EXPECT_EQ(Quoted(std::string_view("\0", 1)), R"("\x00")");
  EXPECT_EQ(Quoted(std::string(200, 'x')), "\"" + std::string(200, 'x') + "\"");
  EXPECT_EQ(Quoted(std::string(201, 'x')), "\"" + std::string(200, 'x') + "…\"");
  EXPECT_EQ(Quoted("abc", 2), "\"ab…\"");
  EXPECT_EQ(Quoted("ab", 2), "\"ab\"");
}

}  // namespace
}  // namespace stoker::base
