#include "pserver/fencing/membership.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace oarlock::pserver {
namespace {

using States = google::protobuf::RepeatedPtrField<v1::WorkerState>;

States One(uint32_t worker, uint64_t generation, v1::WorkerState::Life life) {
  States states;
  v1::WorkerState* state = states.Add();
  state->set_worker_index(worker);
  state->set_worker_generation(generation);
  state->set_life(life);
  return states;
}

absl::Status Check(const Membership& membership, uint32_t worker,
                   uint64_t generation) {
  return membership.CheckPush(WorkerIndex(worker), Generation(generation));
}

TEST(MembershipTest, NewerGenerationFencesOlderOnes) {
  Membership membership(4);
  EXPECT_TRUE(Check(membership, 3, 17).ok());
  EXPECT_TRUE(Check(membership, 3, 18).ok());
  const absl::Status status = Check(membership, 3, 17);
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(status.message(),
            "worker 3 generation 17 was fenced by generation 18; register "
            "anew");
  EXPECT_TRUE(Check(membership, 3, 18).ok());
  EXPECT_TRUE(Check(membership, 2, 1).ok());
}

TEST(MembershipTest, LostGenerationMayNotPushButItsSuccessorMay) {
  Membership membership(2);
  EXPECT_TRUE(Check(membership, 0, 5).ok());
  membership.Update(One(0, 5, v1::WorkerState::LOST));
  EXPECT_EQ(Check(membership, 0, 5).code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(Check(membership, 0, 6).ok());
  // What the coordinator said before it knew of the successor.
  membership.Update(One(0, 5, v1::WorkerState::LOST));
  EXPECT_TRUE(Check(membership, 0, 6).ok());
}

TEST(MembershipTest, CoordinatorsWordFencesWithoutAPush) {
  Membership membership(2);
  membership.Update(One(1, 9, v1::WorkerState::ALIVE));
  EXPECT_EQ(Check(membership, 1, 8).code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(Check(membership, 1, 9).ok());
}

TEST(MembershipTest, FinishedAndFailedMayNotPush) {
  for (const auto life : {v1::WorkerState::FINISHED, v1::WorkerState::FAILED}) {
    Membership membership(1);
    membership.Update(One(0, 3, life));
    EXPECT_EQ(Check(membership, 0, 3).code(), absl::StatusCode::kAborted);
  }
}

TEST(MembershipTest, StrangersAndReadersMayNotPush) {
  Membership membership(2);
  EXPECT_EQ(Check(membership, 2, 1).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Check(membership, 0, 0).code(), absl::StatusCode::kInvalidArgument);
  membership.Update(One(7, 1, v1::WorkerState::LOST));  // No crash.
}

TEST(MembershipTest, RestartedServerAcceptsNothingBeforeTheFirstUpdate) {
  Membership membership(1, Membership::Start::kAfterFirstUpdate);
  EXPECT_EQ(Check(membership, 0, 4).code(), absl::StatusCode::kUnavailable);
  membership.Update(One(0, 5, v1::WorkerState::ALIVE));
  EXPECT_EQ(Check(membership, 0, 4).code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(Check(membership, 0, 5).ok());
}

// Whatever the interleaving, once a generation is refused it stays refused.
TEST(MembershipTest, RefusalIsForEverUnderConcurrency) {
  Membership membership(1);
  std::vector<std::thread> threads;
  std::atomic<bool> broken{false};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::vector<bool> refused(2001);
      for (uint64_t i = 1; i <= 2000; ++i) {
        const uint64_t generation = t % 2 == 0 ? i : 2001 - i;
        const bool ok = Check(membership, 0, generation).ok();
        if (!ok) refused[generation] = true;
        if (generation > 1 && refused[generation] &&
            Check(membership, 0, generation - 1).ok()) {
          broken = true;
        }
        if (i % 100 == 0) {
          membership.Update(One(0, generation, v1::WorkerState::LOST));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(broken);
  EXPECT_EQ(Check(membership, 0, 1999).code(), absl::StatusCode::kAborted);
}

}  // namespace
}  // namespace oarlock::pserver
