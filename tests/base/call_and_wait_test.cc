#include "base/call_and_wait.h"

#include <gtest/gtest.h>

#include <thread>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"

namespace oarlock {
namespace {

using Done = absl::AnyInvocable<void(absl::Status)>;

TEST(CallAndWaitTest, ReturnsWhatIsReportedWithinTheCall) {
  EXPECT_EQ(CallAndWait([](Done done) { done(absl::OkStatus()); }),
            absl::OkStatus());
  EXPECT_EQ(CallAndWait([](Done done) { done(absl::AbortedError("why")); }),
            absl::AbortedError("why"));
}

TEST(CallAndWaitTest, WaitsForAnotherThread) {
  std::thread other;
  bool was_reached = false;
  const absl::Status status = CallAndWait([&](Done done) {
    other = std::thread([&was_reached, done = std::move(done)]() mutable {
      was_reached = true;
      done(absl::UnavailableError("later"));
    });
  });
  EXPECT_TRUE(was_reached);
  EXPECT_EQ(status, absl::UnavailableError("later"));
  other.join();
}

}  // namespace
}  // namespace oarlock
