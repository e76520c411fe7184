#include "pserver/fencing/worker_fences.h"

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

absl::Status Check(const WorkerFences& fences, uint32_t worker,
                   uint64_t generation) {
  return fences.CheckPush(WorkerIndex(worker), Generation(generation));
}

TEST(WorkerFencesTest, NewerGenerationFencesOlderOnes) {
  WorkerFences fences(4);
  EXPECT_TRUE(Check(fences, 3, 17).ok());
  EXPECT_TRUE(Check(fences, 3, 18).ok());
  const absl::Status status = Check(fences, 3, 17);
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(status.message(),
            "worker 3 generation 17 was fenced by generation 18; register "
            "anew");
  EXPECT_TRUE(Check(fences, 3, 18).ok());
  EXPECT_TRUE(Check(fences, 2, 1).ok());
}

TEST(WorkerFencesTest, LostGenerationMayNotPushButItsSuccessorMay) {
  WorkerFences fences(2);
  EXPECT_TRUE(Check(fences, 0, 5).ok());
  fences.Update(One(0, 5, v1::WorkerState::LOST));
  EXPECT_EQ(Check(fences, 0, 5).code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(Check(fences, 0, 6).ok());
  // What the coordinator said before it knew of the successor.
  fences.Update(One(0, 5, v1::WorkerState::LOST));
  EXPECT_TRUE(Check(fences, 0, 6).ok());
}

TEST(WorkerFencesTest, CoordinatorsWordFencesWithoutAPush) {
  WorkerFences fences(2);
  fences.Update(One(1, 9, v1::WorkerState::ALIVE));
  EXPECT_EQ(Check(fences, 1, 8).code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(Check(fences, 1, 9).ok());
}

TEST(WorkerFencesTest, FinishedAndFailedMayNotPush) {
  for (const auto life : {v1::WorkerState::FINISHED, v1::WorkerState::FAILED}) {
    WorkerFences fences(1);
    fences.Update(One(0, 3, life));
    EXPECT_EQ(Check(fences, 0, 3).code(), absl::StatusCode::kAborted);
  }
}

TEST(WorkerFencesTest, StrangersAndReadersMayNotPush) {
  WorkerFences fences(2);
  EXPECT_EQ(Check(fences, 2, 1).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Check(fences, 0, 0).code(), absl::StatusCode::kInvalidArgument);
  fences.Update(One(7, 1, v1::WorkerState::LOST));  // No crash.
}

TEST(WorkerFencesTest, RestartedServerAcceptsNothingBeforeTheFirstUpdate) {
  WorkerFences fences(1, WorkerFences::Start::kAfterFirstUpdate);
  EXPECT_EQ(Check(fences, 0, 4).code(), absl::StatusCode::kUnavailable);
  fences.Update(One(0, 5, v1::WorkerState::ALIVE));
  EXPECT_EQ(Check(fences, 0, 4).code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(Check(fences, 0, 5).ok());
}

// Whatever the interleaving, once a generation is refused it stays refused.
TEST(WorkerFencesTest, RefusalIsForEverUnderConcurrency) {
  WorkerFences fences(1);
  std::vector<std::thread> threads;
  std::atomic<bool> broken{false};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::vector<bool> refused(2001);
      for (uint64_t i = 1; i <= 2000; ++i) {
        const uint64_t generation = t % 2 == 0 ? i : 2001 - i;
        const bool ok = Check(fences, 0, generation).ok();
        if (!ok) refused[generation] = true;
        if (generation > 1 && refused[generation] &&
            Check(fences, 0, generation - 1).ok()) {
          broken = true;
        }
        if (i % 100 == 0) {
          fences.Update(One(0, generation, v1::WorkerState::LOST));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(broken);
  EXPECT_EQ(Check(fences, 0, 1999).code(), absl::StatusCode::kAborted);
}

// Nobody's claim fences a worker.
TEST(WorkerFencesTest, AServerBelievesTheCoordinatorAlone) {
  WorkerFences fences(2, WorkerFences::Start::kAfterFirstUpdate);
  fences.Update(One(0, 5, v1::WorkerState::ALIVE));
  EXPECT_TRUE(Check(fences, 0, 5).ok());
  EXPECT_EQ(Check(fences, 0, uint64_t{1} << 62).code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(Check(fences, 1, 1).code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(Check(fences, 0, 5).ok());
  fences.Update(One(0, 6, v1::WorkerState::ALIVE));
  EXPECT_TRUE(Check(fences, 0, 6).ok());
  EXPECT_EQ(Check(fences, 0, 5).code(), absl::StatusCode::kAborted);
}

}  // namespace
}  // namespace oarlock::pserver
