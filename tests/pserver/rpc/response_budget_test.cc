#include "pserver/rpc/response_budget.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>

namespace oarlock::pserver {
namespace {

constexpr uint64_t kLimit = uint64_t{100} << 20;
constexpr auto kExhausted = absl::StatusCode::kResourceExhausted;

TEST(ResponseBudgetTest, OneCallHasWhatAMessageHolds) {
  const auto budget = std::make_shared<ResponseBudget>(kLimit);
  for (const uint64_t bytes :
       {ResponseBudget::kMaxCallBytes - 1, ResponseBudget::kMaxCallBytes}) {
    ResponseBudget::Share share(budget);
    EXPECT_TRUE(share.Take(bytes).ok());
  }
  ResponseBudget::Share share(budget);
  EXPECT_EQ(share.Take(ResponseBudget::kMaxCallBytes + 1).code(), kExhausted);
  // What was refused has no part in the sum.
  EXPECT_TRUE(share.Take(ResponseBudget::kMaxCallBytes - 10).ok());
  EXPECT_TRUE(share.Plan(10).ok());
  EXPECT_EQ(share.Plan(1).code(), kExhausted);
}

TEST(ResponseBudgetTest, AllCallsHaveALimitTogether) {
  const auto budget = std::make_shared<ResponseBudget>(kLimit);
  ResponseBudget::Share first(budget);
  ASSERT_TRUE(first.Take(ResponseBudget::kMaxCallBytes).ok());
  const uint64_t left = kLimit - ResponseBudget::kMaxCallBytes;
  {
    ResponseBudget::Share second(budget);
    EXPECT_EQ(second.Take(left + 1).code(), kExhausted);
    EXPECT_TRUE(second.Take(left - 1).ok());
    EXPECT_TRUE(second.Take(1).ok());
    EXPECT_EQ(second.Take(1).code(), kExhausted);
    EXPECT_EQ(budget->response_bytes(), kLimit);
  }
  EXPECT_EQ(budget->response_bytes(), ResponseBudget::kMaxCallBytes);
}

TEST(ResponseBudgetTest, ARefusedOneKeepsNobodyOut) {
  const auto budget = std::make_shared<ResponseBudget>(kLimit);
  ResponseBudget::Share batch(budget);
  ASSERT_TRUE(batch.Take(1000).ok());
  for (int i = 0; i < 200; ++i) {
    EXPECT_EQ(batch.Take(ResponseBudget::kMaxCallBytes).code(), kExhausted);
  }
  EXPECT_EQ(budget->response_bytes(), 1000u);
  ResponseBudget::Share other(budget);
  EXPECT_TRUE(other.Take(1 << 20).ok());
}

TEST(ResponseBudgetTest, OneThatIsAloneHasRoom) {
  const auto budget = std::make_shared<ResponseBudget>(1);
  ResponseBudget::Share share(budget);
  EXPECT_TRUE(share.Take(1 << 20).ok());
  EXPECT_EQ(share.Take(1).code(), kExhausted);
}

}  // namespace
}  // namespace oarlock::pserver
