#include "base/status_macros.h"

#include <gtest/gtest.h>

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace oarlock {
namespace {

absl::StatusOr<std::unique_ptr<int>> MakeNumber(int number) {
  if (number < 0) return absl::InvalidArgumentError("negative");
  return std::make_unique<int>(number);
}

absl::StatusOr<int> Sum(int a, int b) {
  OARLOCK_ASSIGN_OR_RETURN(std::unique_ptr<int> x, MakeNumber(a));
  OARLOCK_ASSIGN_OR_RETURN(const std::unique_ptr<int> y, MakeNumber(b));
  return *x + *y;
}

absl::Status CountIfOk(absl::Status first, int* calls) {
  OARLOCK_RETURN_IF_ERROR(first);
  ++*calls;
  return absl::OkStatus();
}

TEST(StatusMacrosTest, ValuesAreHandedOnAndTheFirstErrorReturns) {
  EXPECT_EQ(*Sum(1, 2), 3);
  EXPECT_EQ(Sum(1, -2).status(), absl::InvalidArgumentError("negative"));
  EXPECT_EQ(Sum(-1, 2).status(), absl::InvalidArgumentError("negative"));
  int calls = 0;
  EXPECT_TRUE(CountIfOk(absl::OkStatus(), &calls).ok());
  EXPECT_EQ(CountIfOk(absl::AbortedError("x"), &calls),
            absl::AbortedError("x"));
  EXPECT_EQ(calls, 1);
}

TEST(StatusMacrosTest, AnnotateKeepsTheCode) {
  EXPECT_EQ(Annotate(absl::NotFoundError("no row"), "table 1"),
            absl::NotFoundError("table 1: no row"));
  EXPECT_TRUE(Annotate(absl::OkStatus(), "table 1").ok());
}

}  // namespace
}  // namespace oarlock
