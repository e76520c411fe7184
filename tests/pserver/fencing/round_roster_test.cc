#include "pserver/fencing/round_roster.h"

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

class RoundRosterTest : public ::testing::Test {
 protected:
  bool IsMember() const { return registry_.RoundMembers().contains(kWorker); }
  absl::Status Set(uint64_t generation, bool joins, uint64_t request) {
    return roster_.SetMember(kWorker, Generation(generation), joins, request)
        .status();
  }

  Membership membership_{2, Membership::Start::kAfterFirstUpdate};
  const FakeClock clock_;
  TableRegistry registry_{
      cluster::PartitionMap::Even(1u << kTestPartitionBits, 1), ServerIndex(0),
      clock_};
  RoundRoster roster_{&membership_, &registry_};
};

TEST_F(RoundRosterTest, WhatIsRefusedMayComeAgainUnderTheSameNumber) {
  EXPECT_EQ(Set(5, /*joins=*/true, 1).code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(IsMember());
  roster_.Apply(Alive(5));
  EXPECT_TRUE(Set(5, /*joins=*/true, 1).ok());
  EXPECT_TRUE(IsMember());
}

TEST_F(RoundRosterTest, ALateRepetitionChangesNothing) {
  roster_.Apply(Alive(5));
  ASSERT_TRUE(Set(5, /*joins=*/true, 1).ok());
  ASSERT_TRUE(Set(5, /*joins=*/false, 2).ok());
  EXPECT_TRUE(Set(5, /*joins=*/true, 1).ok());
  EXPECT_FALSE(IsMember());
  ASSERT_TRUE(Set(5, /*joins=*/true, 3).ok());
  EXPECT_TRUE(Set(5, /*joins=*/false, 2).ok());
  EXPECT_TRUE(IsMember());
}

TEST_F(RoundRosterTest, NumbersOfAnotherGenerationBeginAnew) {
  roster_.Apply(Alive(5));
  ASSERT_TRUE(Set(5, /*joins=*/true, 7).ok());
  ASSERT_TRUE(Set(6, /*joins=*/true, 1).ok());
  // The old one leaves late.
  EXPECT_TRUE(Set(5, /*joins=*/false, 8).ok());
  EXPECT_TRUE(IsMember());
  EXPECT_TRUE(Set(6, /*joins=*/false, 2).ok());
  EXPECT_FALSE(IsMember());
}

}  // namespace
}  // namespace oarlock::pserver
