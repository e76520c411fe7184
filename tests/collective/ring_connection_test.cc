// Connecting with a fake library: looks, the limit and who ends the wait.

#include "collective/ring_connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"

namespace oarlock::collective {
namespace {

using ::testing::HasSubstr;

// Connects after so many looks.
struct FakeLibrary {
  int looks_needed = 0;
  absl::Status error;
  int num_looks = 0;
  bool has_waited = false;

  absl::StatusOr<bool> Look() {
    if (num_looks < looks_needed) return false;
    if (!error.ok()) return error;
    return true;
  }
  ConnectCalls Calls() {
    return {.begin = [this] { return Look(); },
            .is_over =
                [this] {
                  ++num_looks;
                  return Look();
                },
            .connect =
                [this] {
                  has_waited = true;
                  return error;
                }};
  }
};

class RingConnectionTest : public testing::Test {
 protected:
  absl::Status Connect(const ConnectCalls& calls) {
    const auto group = [this] {
      return clock_.Now() < group_ends_ ? absl::OkStatus()
                                        : absl::UnavailableError("rank 1 died");
    };
    return ConnectRing(clock_, calls, group,
                       {.timeout = absl::Seconds(3), .look = absl::Seconds(1)});
  }

  SkippingClock clock_;
  const absl::Time start_ = clock_.Now();
  absl::Time group_ends_ = absl::InfiniteFuture();
  FakeLibrary library_;
};

TEST_F(RingConnectionTest, WhatIsConnectedAtOnceIsNotLookedAt) {
  EXPECT_EQ(Connect(library_.Calls()), absl::OkStatus());
  EXPECT_EQ(library_.num_looks, 0);
  EXPECT_EQ(clock_.Now(), start_);
}

TEST_F(RingConnectionTest, LooksUntilAllAreConnected) {
  library_.looks_needed = 3;
  EXPECT_EQ(Connect(library_.Calls()), absl::OkStatus());
  EXPECT_EQ(library_.num_looks, 3);
  EXPECT_EQ(clock_.Now() - start_, absl::Seconds(3));
  EXPECT_FALSE(library_.has_waited);
}

TEST_F(RingConnectionTest, TheLimitEndsItAndItsMessageHasIt) {
  library_.looks_needed = 100;
  const absl::Status status = Connect(library_.Calls());
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("connecting was not over within 3s; "));
  EXPECT_EQ(clock_.Now() - start_, absl::Seconds(4));
}

TEST_F(RingConnectionTest, TheGroupsFailureEndsItBeforeTheLimit) {
  library_.looks_needed = 100;
  group_ends_ = start_ + absl::Seconds(2);
  EXPECT_EQ(Connect(library_.Calls()), absl::UnavailableError("rank 1 died"));
  EXPECT_EQ(library_.num_looks, 2);
}

TEST_F(RingConnectionTest, TheLibrarysErrorEndsItAtTheBeginningAndLater) {
  library_.error = absl::FailedPreconditionError("NCCL: connecting: no way");
  for (const int looks : {0, 2}) {
    library_.looks_needed = looks;
    EXPECT_EQ(Connect(library_.Calls()), library_.error);
    EXPECT_EQ(library_.num_looks, looks);
  }
}

TEST_F(RingConnectionTest, ALibraryThatCanOnlyWaitIsWaitedFor) {
  ConnectCalls calls = library_.Calls();
  calls.begin = nullptr;
  calls.is_over = nullptr;
  group_ends_ = start_;
  EXPECT_EQ(Connect(calls), absl::OkStatus());
  EXPECT_TRUE(library_.has_waited);
  library_.error = absl::FailedPreconditionError("NCCL: connecting: no way");
  EXPECT_EQ(Connect(calls), library_.error);
}

}  // namespace
}  // namespace oarlock::collective
