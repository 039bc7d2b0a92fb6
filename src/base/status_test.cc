// Status, Result and their two macros.
#include <stoker/base/status.h>

#include <memory>

#include <gtest/gtest.h>

namespace stoker::base {
namespace {

TEST(StatusTest, CodesHaveTheWiresNumbersAndNames) {
  EXPECT_EQ(static_cast<int>(StatusCode::kUnauthenticated), 16);
  EXPECT_EQ(StatusCodeName(StatusCode::kOk), "OK");
  EXPECT_EQ(StatusCodeName(StatusCode::kInvalidArgument), "INVALID_ARGUMENT");
  EXPECT_EQ(StatusCodeName(StatusCode::kUnavailable), "UNAVAILABLE");
  EXPECT_EQ(StatusCodeName(StatusCode::kUnauthenticated), "UNAUTHENTICATED");
  EXPECT_EQ(StatusCodeName(static_cast<StatusCode>(17)), "UNKNOWN");
}

TEST(StatusTest, TextAndContext) {
  EXPECT_EQ(OkStatus().ToString(), "OK");
  EXPECT_EQ(OkStatus().WithContext("x"), OkStatus());
  const Status status = NotFound("no such model").WithContext("load");
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_EQ(status.ToString(), "NOT_FOUND: load: no such model");
  EXPECT_NE(status, NotFound("no such model"));
}

Result<std::unique_ptr<int>> Make(int value) {
  if (value < 0) return InvalidArgument("negative");
  return std::make_unique<int>(value);
}

Status Sum(int a, int b, int* out) {
  STOKER_ASSIGN_OR_RETURN(const auto first, Make(a));
  STOKER_ASSIGN_OR_RETURN(const auto second, Make(b));
  *out = *first + *second;
  STOKER_RETURN_IF_ERROR(*out > 100 ? Internal("large") : OkStatus());
  return OkStatus();
}

TEST(StatusTest, MacrosReturnTheFirstError) {
  int out = 0;
  EXPECT_TRUE(Sum(1, 2, &out).ok());
  EXPECT_EQ(out, 3);
  EXPECT_EQ(Sum(1, -2, &out).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Sum(99, 2, &out).code(), StatusCode::kInternal);
}

TEST(StatusTest, ResultHoldsAValueOrAStatus) {
  Result<std::unique_ptr<int>> good = Make(5);
  ASSERT_TRUE(good.ok());
  EXPECT_TRUE(good.status().ok());
  const std::unique_ptr<int> taken = std::move(good).value();
  EXPECT_EQ(*taken, 5);
  const Result<std::unique_ptr<int>> bad = Make(-5);
  EXPECT_FALSE(bad.ok());
  EXPECT_EQ(bad.status().message(), "negative");
}

TEST(StatusDeathTest, MisuseOfResultIsABug) {
  EXPECT_DEATH(static_cast<void>(Make(-1).value()), "CHECK failed: ok");
  EXPECT_DEATH(static_cast<void>(Result<int>(OkStatus())), "CHECK failed");
}

}  // namespace
}  // namespace stoker::base
