// Aim: shapes and byte sizes are checked without overflow. Method: tables against hand-computed values.
#include <stoker/tensor/tensor.h>

#include <gtest/gtest.h>

namespace stoker::tensor {
namespace {

Tensor Make(DataType type, Shape shape, std::string bytes) {
  return {type, std::move(shape), base::Bytes::Own(std::move(bytes))};
}

TEST(DataTypeTest, NamesRoundTrip) {
  for (int i = 1; i < kDataTypeCount; ++i) {
    const auto type = static_cast<DataType>(i);
    EXPECT_EQ(ParseProtocolName(ProtocolName(type)), type);
  }
  EXPECT_EQ(ParseProtocolName("fp32"), std::nullopt);
  EXPECT_EQ(ParseProtocolName("<invalid>"), std::nullopt);
  EXPECT_EQ(ElementSize(DataType::kBf16), 2u);
  EXPECT_EQ(ConfigName(DataType::kBytes), "TYPE_STRING");
}

TEST(ShapeTest, HoldsMoreThanEightDimensions) {
  Shape shape;
  for (int64_t i = 0; i < 12; ++i) {
    shape.Append(i);
    ASSERT_EQ(shape.rank(), static_cast<size_t>(i + 1));
    for (int64_t j = 0; j <= i; ++j) ASSERT_EQ(shape[static_cast<size_t>(j)], j);
  }
  EXPECT_EQ(shape.Tail(10), (Shape{10, 11}));
  EXPECT_EQ((Shape{2, 3}).WithLeading(7), (Shape{7, 2, 3}));
}

TEST(ShapeTest, RefusesProductsThatOverflow) {
  EXPECT_EQ(*(Shape{2, 3, 4}).ElementCount(), 24);
  EXPECT_EQ(*Shape{}.ElementCount(), 1);
  EXPECT_EQ(*(Shape{0, int64_t{1} << 62}).ElementCount(8), 0);
  EXPECT_FALSE((Shape{int64_t{1} << 32, int64_t{1} << 32}).ElementCount().ok());
  EXPECT_FALSE((Shape{int64_t{1} << 61}).ElementCount(8).ok());
  EXPECT_FALSE((Shape{-1, 2}).ElementCount().ok());
}

TEST(ShapeTest, MatchesPatterns) {
  EXPECT_TRUE((Shape{4, 3}).Matches(Shape{-1, 3}));
  EXPECT_FALSE((Shape{4, 3}).Matches(Shape{-1, 4}));
  EXPECT_FALSE((Shape{4}).Matches(Shape{-1, 4}));
}

TEST(TensorTest, ChecksByteSizes) {
  EXPECT_TRUE(CheckBytes("x", Make(DataType::kFp32, {2, 2}, std::string(16, 'a'))).ok());
  EXPECT_FALSE(CheckBytes("x", Make(DataType::kFp32, {2, 2}, std::string(15, 'a'))).ok());
  EXPECT_FALSE(CheckBytes("x", Make(DataType::kFp32, {2, 2}, std::string(17, 'a'))).ok());
}

TEST(TensorTest, ChecksStringElements) {
  std::string data;
  AppendBytesElement(&data, "one");
  AppendBytesElement(&data, "");
  EXPECT_TRUE(CheckBytes("s", Make(DataType::kBytes, {2}, data)).ok());
  EXPECT_FALSE(CheckBytes("s", Make(DataType::kBytes, {3}, data)).ok());
  EXPECT_FALSE(CheckBytes("s", Make(DataType::kBytes, {1}, data)).ok());
  for (size_t cut = 1; cut < data.size(); ++cut) {
    EXPECT_FALSE(CheckBytes("s", Make(DataType::kBytes, {2}, data.substr(0, cut))).ok()) << cut;
  }
  EXPECT_FALSE(CheckBytes("s", Make(DataType::kBytes, {1},
                                    std::string("\xff\xff\xff\xff"
                                                "a",
                                                5)))
                   .ok());
}

}  // namespace
}  // namespace stoker::tensor
