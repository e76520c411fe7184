#include "pserver/fencing/round_membership.h"

#include <gtest/gtest.h>

#include "base/clock.h"
#include "cluster/partition_map.h"
#include "tests/pserver/service/push_testing.h"

namespace oarlock::pserver {
namespace {

constexpr WorkerIndex kWorker(1);

google::protobuf::RepeatedPtrField<v1::WorkerState> Alive(uint64_t generation) {
  google::protobuf::RepeatedPtrField<v1::WorkerState> states;
  v1::WorkerState* state = states.Add();
  state->set_worker_index(kWorker.value());
  state->set_worker_generation(generation);
  state->set_life(v1::WorkerState::ALIVE);
  return states;
}

class RoundMembershipTest : public ::testing::Test {
 protected:
  bool IsMember() const { return registry_.RoundMembers().contains(kWorker); }
  absl::Status Set(uint64_t generation, bool joins, uint64_t request) {
    return round_membership_
        .SetMember(kWorker, Generation(generation), joins, request)
        .status();
  }

  WorkerFences fences_{2, WorkerFences::Start::kAfterFirstUpdate};
  const FakeClock clock_;
  TableRegistry registry_{
      cluster::PartitionMap::Even(1u << kTestPartitionBits, 1), ServerIndex(0),
      clock_};
  RoundMembership round_membership_{&fences_, &registry_};
};

TEST_F(RoundMembershipTest, WhatIsRefusedMayComeAgainUnderTheSameNumber) {
  EXPECT_EQ(Set(5, /*joins=*/true, 1).code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(IsMember());
  round_membership_.Apply(Alive(5));
  EXPECT_TRUE(Set(5, /*joins=*/true, 1).ok());
  EXPECT_TRUE(IsMember());
}

TEST_F(RoundMembershipTest, ALateRepetitionChangesNothing) {
  round_membership_.Apply(Alive(5));
  ASSERT_TRUE(Set(5, /*joins=*/true, 1).ok());
  ASSERT_TRUE(Set(5, /*joins=*/false, 2).ok());
  EXPECT_TRUE(Set(5, /*joins=*/true, 1).ok());
  EXPECT_FALSE(IsMember());
  ASSERT_TRUE(Set(5, /*joins=*/true, 3).ok());
  EXPECT_TRUE(Set(5, /*joins=*/false, 2).ok());
  EXPECT_TRUE(IsMember());
}

TEST_F(RoundMembershipTest, NumbersOfAnotherGenerationBeginAnew) {
  round_membership_.Apply(Alive(5));
  ASSERT_TRUE(Set(5, /*joins=*/true, 7).ok());
  round_membership_.Apply(Alive(6));
  ASSERT_TRUE(Set(6, /*joins=*/true, 1).ok());
  // The old one leaves late.
  EXPECT_TRUE(Set(5, /*joins=*/false, 8).ok());
  EXPECT_TRUE(IsMember());
  EXPECT_TRUE(Set(6, /*joins=*/false, 2).ok());
  EXPECT_FALSE(IsMember());
}

}  // namespace
}  // namespace oarlock::pserver
