#include "pserver/aggregator/hold_budget.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace oarlock::pserver {
namespace {

constexpr uint64_t kMessage = 1000;
constexpr uint64_t kHeld = kMessage + HoldBudget::kCallBytes;

absl::StatusCode CodeOf(const absl::StatusOr<HoldBudget::Hold>& hold) {
  return hold.status().code();
}

TEST(HoldBudgetTest, WhatIsAheadIsLimited) {
  for (const uint64_t limit : {2 * kHeld - 1, 2 * kHeld, 2 * kHeld + 1}) {
    SCOPED_TRACE(limit);
    HoldBudget budget(limit);
    const auto open = budget.TakeForRound(7, kMessage);
    ASSERT_TRUE(open.ok()) << open.status();
    const auto ahead = budget.TakeForRound(8, kMessage);
    ASSERT_TRUE(ahead.ok()) << ahead.status();
    const absl::StatusCode expected = limit < 2 * kHeld
                                          ? absl::StatusCode::kResourceExhausted
                                          : absl::StatusCode::kOk;
    EXPECT_EQ(CodeOf(budget.TakeForRound(8, kMessage)), expected);
    EXPECT_EQ(CodeOf(budget.TakeBehindCut(kMessage)), expected);
    EXPECT_EQ(budget.held_bytes(), 2 * kHeld);
  }
}

TEST(HoldBudgetTest, TheLowestRoundHasABudgetOfItsOwn) {
  for (const uint64_t limit : {2 * kHeld - 1, 2 * kHeld, 2 * kHeld + 1}) {
    SCOPED_TRACE(limit);
    HoldBudget budget(limit);
    std::vector<HoldBudget::Hold> ahead;
    ahead.push_back(*budget.TakeBehindCut(kMessage));
    EXPECT_EQ(CodeOf(budget.TakeBehindCut(kMessage + 2)),
              absl::StatusCode::kResourceExhausted);
    // A round that nobody has contributed to comes below.
    const auto first = budget.TakeForRound(3, kMessage);
    ASSERT_TRUE(first.ok()) << first.status();
    const auto second = budget.TakeForRound(3, kMessage);
    EXPECT_EQ(CodeOf(second), limit < 2 * kHeld ? absl::StatusCode::kOutOfRange
                                                : absl::StatusCode::kOk)
        << second.status();
  }
}

TEST(HoldBudgetTest, AMessageThatNeverFitsIsOutOfRange) {
  HoldBudget budget(kHeld);
  EXPECT_EQ(CodeOf(budget.TakeForRound(1, kMessage + 1)),
            absl::StatusCode::kOutOfRange);
  EXPECT_TRUE(budget.TakeForRound(1, kMessage).ok());
}

// The next round becomes the lowest when the one before it is over.
TEST(HoldBudgetTest, WhatWasAheadIsNeededLater) {
  HoldBudget budget(2 * kHeld);
  auto first = budget.TakeForRound(1, kMessage);
  auto second = budget.TakeForRound(2, kMessage);
  auto third = budget.TakeForRound(2, kMessage);
  ASSERT_TRUE(first.ok() && second.ok() && third.ok());
  EXPECT_EQ(CodeOf(budget.TakeForRound(2, kMessage)),
            absl::StatusCode::kResourceExhausted);
  *first = HoldBudget::Hold();
  EXPECT_EQ(CodeOf(budget.TakeForRound(2, kMessage)),
            absl::StatusCode::kOutOfRange);
  EXPECT_TRUE(budget.TakeForRound(3, kMessage).ok());
}

TEST(HoldBudgetTest, AHoldGivesItsBytesBackOnce) {
  HoldBudget budget(1 << 20);
  auto taken = budget.TakeForRound(1, kMessage);
  ASSERT_TRUE(taken.ok());
  HoldBudget::Hold moved = *std::move(taken);
  *taken = HoldBudget::Hold();
  EXPECT_EQ(budget.held_bytes(), kHeld);
  moved = *budget.TakeBehindCut(0);
  EXPECT_EQ(budget.held_bytes(), HoldBudget::kCallBytes);
  moved = HoldBudget::Hold();
  EXPECT_EQ(budget.held_bytes(), 0);
}

}  // namespace
}  // namespace oarlock::pserver
