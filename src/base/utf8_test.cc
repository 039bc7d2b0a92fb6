// UTF-8 against every code point, every short sequence of bytes judged by a slow decoder, and the
// replacement of invalid parts.
#include <stoker/base/utf8.h>

#include <optional>

#include <gtest/gtest.h>
#include <stoker/base/rng.h>
#include <stoker/base/testing/random_seed.h>

namespace stoker::base {
namespace {

/// The code point that `text` as a whole encodes, from the definition: decode loosely, then refuse
/// whatever would not have been written that way.
std::optional<uint32_t> SlowDecode(std::string_view text) {
  const auto at = [text](size_t i) { return static_cast<uint8_t>(text[i]); };
  uint32_t value = 0;
  if (text.size() == 1 && at(0) < 0x80) return at(0);
  if (text.size() < 2 || text.size() > 4) return std::nullopt;
  const uint32_t marker = 0xF00u >> text.size() & 0xFF;  // 110…, 1110…, 11110…
  const uint32_t mask = 0x7Fu >> text.size();
  if ((at(0) & ~mask & 0xFF) != (marker & ~mask & 0xFF)) return std::nullopt;
  value = at(0) & mask;
  for (size_t i = 1; i < text.size(); ++i) {
    if (at(i) >> 6 != 2) return std::nullopt;
    value = value << 6 | (at(i) & 0x3F);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  if (value < kLeast[text.size()] || value > 0x10FFFF || (value >= 0xD800 && value < 0xE000))
    return std::nullopt;
  return value;
}

size_t SlowPrefix(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    size_t length = 1;
    while (length <= 4 && at + length <= text.size() && !SlowDecode(text.substr(at, length))) ++length;
    if (length > 4 || at + length > text.size()) return at;
    at += length;
  }
  return at;
}

TEST(Utf8Test, EveryCodePoint) {
  std::string text;
  for (uint32_t c = 0; c <= 0x110000; ++c) {
    text.clear();
    AppendUtf8(&text, c);
    const bool real = c < 0xD800 || (c >= 0xE000 && c < 0x110000);
    ASSERT_TRUE(IsUtf8(text));
    ASSERT_EQ(SlowDecode(text), real ? c : 0xFFFDu);
  }
}

TEST(Utf8Test, EveryPairAndTripleOfBytes) {
  for (int a = 0; a < 256; ++a) {
    for (int b = 0; b < 256; ++b) {
      std::string text{static_cast<char>(a), static_cast<char>(b)};
      ASSERT_EQ(Utf8ValidPrefix(text), SlowPrefix(text)) << a << " " << b;
      if (a < 0xC0) continue;
      for (const int c : {0x00, 0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xff}) {
        text.resize(2);
        text += static_cast<char>(c);
        ASSERT_EQ(Utf8ValidPrefix(text), SlowPrefix(text)) << a << " " << b << " " << c;
        text += "\x80";
        ASSERT_EQ(Utf8ValidPrefix(text), SlowPrefix(text)) << a << " " << b << " " << c;
      }
    }
  }
}

TEST(Utf8Test, RandomTexts) {
  Rng rng(testing::RandomSeed());
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (uint64_t pieces = rng.Below(12); pieces > 0; --pieces) {
      if (rng.Below(3) != 0) {
        text.append(rng.Below(20), 'a');
      } else {
        AppendUtf8(&text, static_cast<char32_t>(rng.Below(0x110000)));
      }
    }
    ASSERT_TRUE(IsUtf8(text));
    if (!text.empty()) text[rng.Below(text.size())] = static_cast<char>(rng.Below(256));
    ASSERT_EQ(Utf8ValidPrefix(text), SlowPrefix(text));
    std::string repaired;
    AppendValidUtf8(&repaired, text);
    ASSERT_TRUE(IsUtf8(repaired));
    ASSERT_EQ(repaired == text, IsUtf8(text));
  }
}

TEST(Utf8Test, ReplacesMaximalParts) {
  const auto repaired = [](std::string_view text) {
    std::string out;
    AppendValidUtf8(&out, text);
    return out;
  };
  // As the Unicode standard's table 3-8 and Python's errors="replace" have it.
  EXPECT_EQ(repaired(""), "");
  EXPECT_EQ(repaired("a\xF1\x80\x80\xE1\x80\xC2z"), "a\uFFFD\uFFFD\uFFFDz");
  EXPECT_EQ(repaired("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"),
            "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\x41");
  EXPECT_EQ(repaired("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(repaired("é\xFF€"), "é\uFFFD€");
}

}  // namespace
}  // namespace stoker::base
