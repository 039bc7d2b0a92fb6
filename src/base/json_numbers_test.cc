// Numbers in JSON: reading against strtod and strtof, writing against reading, ranges of every type.
#include <stoker/base/json.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include <gtest/gtest.h>
#include <stoker/base/rng.h>
#include <stoker/base/testing/random_seed.h>

namespace stoker::base {
namespace {

template <typename T>
uint64_t Bits(T value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(value));
  return bits;
}

void ExpectLikeLibc(const std::string& text) {
  const double wide = std::strtod(text.c_str(), nullptr);
  const float narrow = std::strtof(text.c_str(), nullptr);
  const Result<double> read = JsonReader(text).ReadDouble();
  const Result<float> read_float = JsonReader(text).ReadFloat();
  ASSERT_EQ(read.ok(), std::isfinite(wide)) << text;
  ASSERT_EQ(read_float.ok(), std::isfinite(wide)) << text;
  if (!read.ok()) {
    EXPECT_EQ(read.status().code(), StatusCode::kOutOfRange);
    return;
  }
  EXPECT_EQ(Bits(*read), Bits(wide)) << text;
  EXPECT_EQ(Bits(*read_float), Bits(narrow)) << text;
}

TEST(JsonNumbersTest, ChosenTextsReadLikeLibc) {
  for (const char* text : {"0",
                           "-0",
                           "0.0",
                           "-0.0e5",
                           "0e999999999999999999999",
                           "1",
                           "-1",
                           "0.1",
                           "0.3",
                           "2.5",
                           "1e22",
                           "1e23",
                           "9007199254740993",
                           "9007199254740992.5",
                           "9007199254740993e0",
                           "1e-400",
                           "-1e-400",
                           "4.9e-324",
                           "2.4703282292062327e-324",
                           "2.4703282292062328e-324",
                           "1.7976931348623157e308",
                           "1.7976931348623158e308",
                           "1.7976931348623159e308",
                           "1e308",
                           "1e309",
                           "1e999",
                           "3.4028235e38",
                           "3.4028236e38",
                           "3.40282357e38",
                           "1e300",
                           "-1e300",
                           "1e-45",
                           "7e-46",
                           "7.1e-46",
                           "1.1754943e-38",
                           "16777217",
                           "16777219",
                           "0.30000001192092896",
                           "0.000012345678901234567890",
                           "123456789012345678901234567890",
                           "0.1e1",
                           "1e1",
                           "1E+2",
                           "1e-2",
                           "8.589973e9",
                           "7.038531e-26",
                           "1e-22",
                           "1e-27",
                           "1e-28",
                           "9999999999999999999e27",
                           "9999999999999999999e-27",
                           "12345678901234567890",
                           "18446744073709551616",
                           "1.00000000000000011102230246251565",
                           "1e00000000000000000000000000001",
                           "100000000000000000000000000000000000000000000000000e-50",
                           "6.02214076e+23",
                           "1.5e-10",
                           "299792458",
                           "4503599627370497.5"}) {
    ExpectLikeLibc(text);
  }
  ExpectLikeLibc("0." + std::string(400, '0') + "1");
  ExpectLikeLibc("1" + std::string(400, '0'));
  ExpectLikeLibc("1" + std::string(400, '0') + "e-400");
  ExpectLikeLibc("0." + std::string(400, '0') + "1e401");
}

TEST(JsonNumbersTest, RandomTextsReadLikeLibc) {
  Rng rng(testing::RandomSeed());
  char text[400];
  for (int i = 0; i < 200000 && !HasFailure(); ++i) {
    const uint64_t bits = rng.Next64();
    const auto wide = std::bit_cast<double>(bits);
    const auto narrow = std::bit_cast<float>(static_cast<uint32_t>(bits));
    const double plain = static_cast<double>(bits >> 11) * 0x1p-53;
    const int digits = static_cast<int>(rng.Next64() % 24);
    const double value = i % 4 == 0   ? wide
                         : i % 4 == 1 ? narrow
                         : i % 4 == 2 ? plain
                                      : static_cast<float>(plain);
    if (!std::isfinite(value)) continue;
    std::snprintf(text, sizeof(text), i % 3 == 0 ? "%.*e" : "%.*g", digits, value);
    ExpectLikeLibc(text);
    // Halfway between two floats, as exactly as digits go, is where rounding errs.
    const float next = std::nextafter(narrow, std::numeric_limits<float>::infinity());
    if (std::isfinite(narrow) && std::isfinite(next)) {
      std::snprintf(text, sizeof(text), "%.*e", 10 + digits, (static_cast<double>(narrow) + next) / 2);
      ExpectLikeLibc(text);
    }
  }
}

template <typename T>
void ExpectRoundTrip(T value) {
  std::string text;
  AppendJsonNumber(&text, value);
  ASSERT_LT(text.size(), 32u);
  T again = 0;
  text = "[" + text + "]";
  ASSERT_TRUE(JsonReader(text).ReadNumbers(&again, 1).ok()) << text;
  EXPECT_EQ(Bits(again), Bits(value)) << text;
  EXPECT_NE(text.find_first_of(".eN"), text.npos) << text;
}

TEST(JsonNumbersTest, WhatIsWrittenReadsBackEqual) {
  Rng rng(testing::RandomSeed());
  for (int i = 0; i < 200000 && !HasFailure(); ++i) {
    const uint64_t bits = rng.Next64();
    const auto wide = std::bit_cast<double>(bits);
    const auto narrow = std::bit_cast<float>(static_cast<uint32_t>(bits));
    if (std::isfinite(wide)) ExpectRoundTrip(wide);
    if (std::isfinite(narrow)) ExpectRoundTrip(narrow);
    ExpectRoundTrip(static_cast<double>(static_cast<int64_t>(bits) >> (bits & 63)));
    ExpectRoundTrip(static_cast<float>(static_cast<int64_t>(bits) >> (bits & 63)));
    ExpectRoundTrip(static_cast<float>(bits >> 40) * 0x1p-24f);
    ExpectRoundTrip(static_cast<float>(static_cast<int>(bits % 2000001) - 1000000) / 1000);
  }
}

TEST(JsonNumbersTest, WrittenForms) {
  const auto write = [](auto value) {
    std::string out;
    AppendJsonNumber(&out, value);
    return out;
  };
  EXPECT_EQ(write(0.0f), "0.0");
  EXPECT_EQ(write(-0.0f), "-0.0");
  EXPECT_EQ(write(1.0f), "1.0");
  EXPECT_EQ(write(-3.0), "-3.0");
  EXPECT_EQ(write(16777216.0f), "16777216.0");
  EXPECT_EQ(write(0.1f), "0.1");
  EXPECT_EQ(write(0.1), "0.1");
  EXPECT_EQ(write(0.25f), "0.25");
  EXPECT_EQ(write(1e20f), "1e+20");
  EXPECT_EQ(write(1e-7f), "1e-07");
  // The texts of Python's repr().
  for (const char* text : {"0.0001",
                           "1e-05",
                           "0.00012",
                           "1.2e-05",
                           "1000000000000000.0",
                           "1e+16",
                           "123456.789",
                           "1.2345678901234568e+17",
                           "1234567890123456.8",
                           "5e-324",
                           "2.2250738585072014e-308",
                           "1.7976931348623157e+308",
                           "0.30000000000000004",
                           "0.30000001192092896",
                           "3.141592653589793",
                           "1e+22",
                           "1.5e-300",
                           "1e-100",
                           "100000.5",
                           "9007199254740992.0",
                           "2251799813685249.5",
                           "16777217.0"}) {
    EXPECT_EQ(write(std::strtod(text, nullptr)), text);
  }
  EXPECT_EQ(write(3.1415927f), "3.1415927");
  EXPECT_EQ(write(33554432.0f), "33554432.0");
  EXPECT_EQ(write(8388608.5f), "8388608.0");
  EXPECT_EQ(write(1234567.9f), "1234567.9");
  // Its shortest text, 7.038531e-26, would come back one unit off from a reader that goes through double.
  EXPECT_EQ(write(std::bit_cast<float>(0x15AE43FD)), "7.0385307e-26");
  EXPECT_EQ(write(-std::bit_cast<float>(0x15AE43FD)), "-7.0385307e-26");
  EXPECT_EQ(write(3.4028235e38f), "3.4028235e+38");
  EXPECT_EQ(write(1e-45f), "1e-45");
  EXPECT_EQ(write(1.5e-300), "1.5e-300");
  EXPECT_EQ(write(std::numeric_limits<float>::infinity()), "Infinity");
  EXPECT_EQ(write(-std::numeric_limits<double>::infinity()), "-Infinity");
  EXPECT_EQ(write(std::numeric_limits<float>::quiet_NaN()), "NaN");
}

template <typename T>
Status ReadOne(const std::string& text, T* out) {
  return JsonReader("[" + text + "]").ReadNumbers(out, 1);
}

template <typename T>
void ExpectIntegerLimits() {
  using Limits = std::numeric_limits<T>;
  T value = 1;
  EXPECT_TRUE(ReadOne(std::to_string(Limits::max()), &value).ok());
  EXPECT_EQ(value, Limits::max());
  EXPECT_TRUE(ReadOne(std::to_string(Limits::min()), &value).ok());
  EXPECT_EQ(value, Limits::min());
  EXPECT_TRUE(ReadOne("-0", &value).ok());
  EXPECT_EQ(value, T{0});
  // One beyond each end, by decimal text: 2^n − 1 and −2^n never end in a digit that carries.
  std::string above = std::to_string(Limits::max());
  ++above.back();
  EXPECT_EQ(ReadOne(above, &value).code(), StatusCode::kOutOfRange) << above;
  std::string below = Limits::min() == 0 ? "-1" : std::to_string(Limits::min());
  if (Limits::min() != 0) ++below.back();
  // A type without a sign has no negative numbers at all: that is a wrong kind, not a wrong size.
  const StatusCode negative = Limits::min() == 0 ? StatusCode::kInvalidArgument : StatusCode::kOutOfRange;
  EXPECT_EQ(ReadOne(below, &value).code(), negative) << below;
  EXPECT_EQ(ReadOne("-9223372036854775809", &value).code(), negative);
  for (const char* big :
       {"18446744073709551616", "20000000000000000000", "99999999999999999999", "100000000000000000000",
        "36893488147419103233", "18446744073709551617000000000000000000001"}) {
    EXPECT_EQ(ReadOne(big, &value).code(), StatusCode::kOutOfRange) << big;
  }
  for (const char* bad : {"1.0", "1e2", "0.5", "01", "-", "NaN", "Infinity", "true", "\"1\"", "null", "",
                          "1x", "0x1", "+1", "-01", "00"}) {
    EXPECT_EQ(ReadOne(bad, &value).code(), StatusCode::kInvalidArgument) << bad;
  }
}

TEST(JsonNumbersTest, IntegersKeepTheirLimits) {
  ExpectIntegerLimits<int64_t>();
  ExpectIntegerLimits<uint64_t>();
  ExpectIntegerLimits<int32_t>();
  ExpectIntegerLimits<uint32_t>();
  ExpectIntegerLimits<int16_t>();
  ExpectIntegerLimits<uint16_t>();
  ExpectIntegerLimits<int8_t>();
  ExpectIntegerLimits<uint8_t>();
}

TEST(JsonNumbersTest, FloatsAndBools) {
  float values[8];
  JsonReader reader(" [[NaN, Inf],[Infinity,-Inf , -Infinity],\n[[1e300]],[-1e300,0]] ");
  ASSERT_TRUE(reader.ReadNumbers(values, 8).ok());
  ASSERT_TRUE(reader.Finish().ok());
  EXPECT_TRUE(std::isnan(values[0]));
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float wanted[] = {kInfinity, kInfinity, -kInfinity, -kInfinity, kInfinity, -kInfinity, 0};
  for (int i = 0; i < 7; ++i) EXPECT_EQ(values[i + 1], wanted[i]) << i;
  EXPECT_EQ(ReadOne("1e999", values).code(), StatusCode::kOutOfRange);
  EXPECT_EQ(ReadOne("true", values).code(), StatusCode::kInvalidArgument);

  bool bools[3];
  ASSERT_TRUE(JsonReader("[true,[false],true]").ReadNumbers(bools, 3).ok());
  EXPECT_TRUE(bools[0] && !bools[1] && bools[2]);
  for (const char* bad : {"1", "0", "\"true\"", "null", "tru", "truefalse"})
    EXPECT_FALSE(ReadOne(bad, bools).ok()) << bad;
}

TEST(JsonNumbersTest, CountAndShapeOfArrays) {
  int32_t out[4] = {};
  for (const char* good : {"[1,2,3,4]", "[[1,2],[3,4]]", "[[1],[2,3,4]]", " [ [ [ ] , [1,2 ] ] ,[[[3]]],4\n]",
                           "[[],1,2,3,4,[]]"}) {
    EXPECT_TRUE(JsonReader(good).ReadNumbers(out, 4).ok()) << good;
    EXPECT_EQ(out[0] * 1000 + out[1] * 100 + out[2] * 10 + out[3], 1234) << good;
  }
  for (const char* bad : {"", "1", "[", "[]", "[1,2,3]", "[1,2,3,4,5]", "[1,2,3,4", "[1,2,3,4,]",
                          "[1,2,,3,4]", "[[1,2],[3,4]", "[1 2 3 4]", "[1,2,[3,4}]", "{\"a\":1}", "[1,2,3,{}]",
                          "[1,2,3,\"4\"]", "[,1,2,3,4]", "[1,2,3[4]]", "[[1,2][3,4]]"}) {
    EXPECT_FALSE(JsonReader(bad).ReadNumbers(out, 4).ok()) << bad;
  }
  EXPECT_TRUE(JsonReader("[[],[[]]]").ReadNumbers(out, 0).ok());
  EXPECT_EQ(JsonReader("[1,2,3]").ReadNumbers(out, 4).message(),
            "JSON, line 1, column 8: the array has 3 elements, expected 4");
  EXPECT_EQ(JsonReader("[1,2,3]").ReadNumbers(out, 2).message(),
            "JSON, line 1, column 6: the array has more than the expected 2 elements");
  int8_t small;
  EXPECT_EQ(ReadOne("300", &small).message(),
            "JSON, line 1, column 2: 300 is out of range: expected an integer from -128 to 127");
  EXPECT_EQ(ReadOne("1.5", &small).message(),
            "JSON, line 1, column 2: expected an integer from -128 to 127, found 1.5");
  const std::string deep = std::string(100, '[') + "1" + std::string(100, ']');
  EXPECT_TRUE(JsonReader(deep).ReadNumbers(out, 1).ok());
  EXPECT_FALSE(JsonReader("[" + deep + "]").ReadNumbers(out, 1).ok());
  EXPECT_FALSE(JsonReader(std::string(5'000'000, '[')).ReadNumbers(out, 1).ok());
}

TEST(JsonNumbersTest, EveryTruncationOfAnArrayIsAnError) {
  const std::string text = "[[1.25e-3,-0.30000001192092896],[NaN,-Infinity, 12345678901234567890 ]]";
  for (size_t size = 0; size < text.size(); ++size) {
    const std::vector<char> copy(text.begin(), text.begin() + static_cast<ptrdiff_t>(size));
    double out[5];
    EXPECT_FALSE(JsonReader({copy.data(), copy.size()}).ReadNumbers(out, 5).ok()) << size;
  }
  double out[5];
  EXPECT_TRUE(JsonReader(text).ReadNumbers(out, 5).ok());
}

}  // namespace
}  // namespace stoker::base
