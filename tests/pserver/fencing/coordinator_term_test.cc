#include "pserver/fencing/coordinator_term.h"

#include <gtest/gtest.h>

namespace oarlock::pserver {
namespace {

TEST(CoordinatorTermTest, OrdersOfALowerTermAreRefused) {
  CoordinatorTerm term;
  EXPECT_EQ(term.highest(), 0u);
  EXPECT_TRUE(term.Check(0).ok());
  term.Observe(3);
  term.Observe(2);
  EXPECT_EQ(term.highest(), 3u);
  EXPECT_TRUE(term.Check(3).ok());
  EXPECT_TRUE(term.Check(4).ok()) << "a heartbeat may not have named it yet";
  const absl::Status refused = term.Check(2);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(refused.message(),
            "an order of the coordinator's term 2, but this server has seen "
            "term 3: another coordinator has taken over; end the one that sent "
            "it");
}

}  // namespace
}  // namespace oarlock::pserver
