// Base64 against RFC 4648 §10, an encoder written here, and texts that must be refused.
#include <stoker/base/base64.h>

#include <gtest/gtest.h>
#include <stoker/base/rng.h>
#include <stoker/base/testing/random_seed.h>

namespace stoker::base {
namespace {

std::string SlowEncode(const std::string& bytes) {
  const std::string alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bits, out;
  for (const char c : bytes) {
    for (int i = 7; i >= 0; --i) bits += (c >> i & 1) != 0 ? '1' : '0';
  }
  while (bits.size() % 6 != 0) bits += '0';
  for (size_t i = 0; i < bits.size(); i += 6) out += alphabet[std::stoul(bits.substr(i, 6), nullptr, 2)];
  while (out.size() % 4 != 0) out += '=';
  return out;
}

TEST(Base64Test, KnownTexts) {
  const std::pair<const char*, const char*> cases[] = {{"", ""},
                                                       {"Zg==", "f"},
                                                       {"Zm8=", "fo"},
                                                       {"Zm9v", "foo"},
                                                       {"Zm9vYg==", "foob"},
                                                       {"Zm9vYmE=", "fooba"},
                                                       {"Zm9vYmFy", "foobar"},
                                                       {"+/+/", "\xfb\xff\xbf"}};
  for (const auto& [text, wanted] : cases) EXPECT_EQ(*DecodeBase64(text), wanted) << text;
}

TEST(Base64Test, RandomBytesComeBack) {
  Rng rng(testing::RandomSeed());
  for (int i = 0; i < 300; ++i) {
    std::string bytes;
    for (uint64_t size = rng.Below(100); size > 0; --size) bytes += static_cast<char>(rng.Below(256));
    const Result<std::string> decoded = DecodeBase64(SlowEncode(bytes));
    ASSERT_TRUE(decoded.ok()) << decoded.status().ToString();
    EXPECT_EQ(*decoded, bytes);
  }
}

TEST(Base64Test, RefusesWhatIsNotStrict) {
  for (const char* text : {"Z", "Zg", "Zg=", "Zm9vZg", "Zg===", "====", "=g==", "Z===", "Zg=x", "Zg==Zg==",
                           "Zm 9", "Zm9v\n", "Zm9\n", "Zm-_", "Zm\xc3\xa9", "Zh==", "Zm9=", "Z=g="}) {
    EXPECT_EQ(DecodeBase64(text).status().code(), StatusCode::kInvalidArgument) << text;
  }
  EXPECT_EQ(DecodeBase64("Zm9vZm-v").status().message(),
            "base64: found \"-\" at byte 6, expected A-Z, a-z, 0-9, + or / (= only as padding at the end)");
}

}  // namespace
}  // namespace stoker::base
