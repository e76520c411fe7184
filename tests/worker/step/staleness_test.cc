#include "worker/step/staleness.h"

#include <gtest/gtest.h>

namespace oarlock::worker {
namespace {

TEST(StalenessTest, OwnPushDoesNotCount) {
  EXPECT_EQ(Staleness({7}, {8}), 0u);
  EXPECT_EQ(Staleness({7}, {9}), 1u);
}

TEST(StalenessTest, MostOverServersCounts) {
  EXPECT_EQ(Staleness({7, 10, 3}, {8, 15, 5}), 4u);
}

TEST(StalenessTest, ServerThatTheStepDidNotReachCountsNothing) {
  EXPECT_EQ(Staleness({0, 10}, {0, 11}), 0u);
  // Rows from it, but no response to a push.
  EXPECT_EQ(Staleness({40, 10}, {0, 12}), 1u);
}

TEST(StalenessTest, NothingPulledOrPushedIsNotStale) {
  EXPECT_EQ(Staleness({}, {}), 0u);
  EXPECT_EQ(Staleness({1}, {}), 0u);
}

}  // namespace
}  // namespace oarlock::worker
