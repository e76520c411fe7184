#include "coordinator/ranges/range_queue.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "cluster/wire_version.h"

namespace oarlock::coordinator {
namespace {

v1::DefinePhaseRequest Definition(const std::string& phase_name,
                                  int num_ranges) {
  v1::DefinePhaseRequest request;
  request.set_phase_name(phase_name);
  for (int i = 0; i < num_ranges; ++i) {
    v1::DataRange* range = request.add_ranges();
    range->set_begin(i * 10);
    range->set_end(i * 10 + 10);
  }
  return request;
}

v1::LeaseRangesRequest LeaseRequest(uint32_t worker, uint64_t generation,
                                    uint64_t request, uint32_t max_ranges,
                                    std::vector<uint64_t> done = {}) {
  v1::LeaseRangesRequest result;
  result.set_phase_name("train/0");
  result.set_worker_index(worker);
  result.set_worker_generation(generation);
  result.set_request(request);
  result.set_max_ranges(max_ranges);
  for (uint64_t lease : done) result.add_done(lease);
  return result;
}

std::vector<uint64_t> Begins(const v1::LeaseRangesResponse& response) {
  std::vector<uint64_t> begins;
  for (const v1::DataRange& range : response.ranges()) {
    begins.push_back(range.begin());
  }
  return begins;
}

TEST(RangeQueueTest, RangesAreLeasedInOrder) {
  RangeQueue queue;
  ASSERT_TRUE(queue.Define(Definition("train/0", 5)).ok());
  const auto first = queue.Lease(LeaseRequest(0, 1, 1, 2));
  const auto second = queue.Lease(LeaseRequest(1, 2, 1, 9));
  EXPECT_EQ(Begins(*first), (std::vector<uint64_t>{0, 10}));
  EXPECT_EQ(Begins(*second), (std::vector<uint64_t>{20, 30, 40}));
  EXPECT_FALSE(second->exhausted());
}

TEST(RangeQueueTest, UndefinedPhaseIsUnavailable) {
  RangeQueue queue;
  EXPECT_EQ(queue.Lease(LeaseRequest(0, 1, 1, 1)).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST(RangeQueueTest, SameDefinitionIsOkAnotherIsAlreadyExists) {
  RangeQueue queue;
  ASSERT_TRUE(queue.Define(Definition("train/0", 5)).ok());
  ASSERT_TRUE(queue.Lease(LeaseRequest(0, 1, 1, 2)).ok());
  EXPECT_TRUE(queue.Define(Definition("train/0", 5)).ok());
  EXPECT_EQ(queue.Define(Definition("train/0", 4)).code(),
            absl::StatusCode::kAlreadyExists);
  // The second definition did not bring back what is leased.
  EXPECT_EQ(Begins(*queue.Lease(LeaseRequest(0, 1, 2, 1))),
            std::vector<uint64_t>{20});
}

// In the run that began the phase, in one that goes on with what is left of it,
// and in one that goes on from a checkpoint.
TEST(RangeQueueTest, APhaseGoesOnInTheOrderThatItWasBegunWith) {
  v1::DefinePhaseRequest begun = Definition("train/0", 3);
  begun.set_data_order("--shuffle global, --seed 1");
  RangeQueue first;
  ASSERT_TRUE(first.Define(begun).ok());
  RangeQueue next_run;
  v1::RangeQueueState state;
  first.Save(&state);
  next_run.Load(state);
  next_run.BeginRun([](const std::string&) { return true; });
  RangeQueue resumed;
  resumed.SetOrder("train/0", first.Order("train/0"));
  for (RangeQueue* queue : {&first, &next_run, &resumed}) {
    v1::DefinePhaseRequest other = begun;
    other.set_data_order("--shuffle none, --seed 1");
    const absl::Status refused = queue->Define(other);
    EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
    EXPECT_NE(refused.message().find("was begun with --shuffle global; with "
                                     "--shuffle none other examples"),
              absl::string_view::npos)
        << refused;
    EXPECT_TRUE(queue->Define(begun).ok());
    other.set_phase_name("train/1");
    EXPECT_TRUE(queue->Define(other).ok());
  }
}

TEST(RangeQueueTest, AnOrderThatWasNotReportedIsNotCompared) {
  RangeQueue queue;
  queue.SetOrder("train/0", "");
  v1::DefinePhaseRequest request = Definition("train/0", 3);
  request.set_data_order("--shuffle global");
  EXPECT_TRUE(queue.Define(request).ok());
  request.set_data_order(std::string(RangeQueue::kMaxOrderBytes + 1, 'x'));
  EXPECT_TRUE(absl::IsInvalidArgument(queue.Define(request)));
}

TEST(RangeQueueTest, ExhaustedOnlyWhenAllIsDone) {
  RangeQueue queue;
  ASSERT_TRUE(queue.Define(Definition("train/0", 2)).ok());
  const auto a = queue.Lease(LeaseRequest(0, 1, 1, 1));
  const auto b = queue.Lease(LeaseRequest(1, 2, 1, 1));
  const auto waits = queue.Lease(LeaseRequest(0, 1, 2, 1, {a->leases(0)}));
  EXPECT_EQ(waits->ranges_size(), 0);
  EXPECT_FALSE(waits->exhausted());
  EXPECT_TRUE(
      queue.Lease(LeaseRequest(1, 2, 2, 1, {b->leases(0)}))->exhausted());
  EXPECT_TRUE(queue.Lease(LeaseRequest(0, 1, 3, 1))->exhausted());
}

TEST(RangeQueueTest, LostWorkersRangesGoFirst) {
  RangeQueue queue;
  ASSERT_TRUE(queue.Define(Definition("train/0", 4)).ok());
  const auto lost = queue.Lease(LeaseRequest(0, 1, 1, 2));
  queue.Reclaim(WorkerIndex(0), Generation(1));
  // What it says afterwards is not believed.
  EXPECT_EQ(Begins(*queue.Lease(
                LeaseRequest(1, 2, 1, 4, {lost->leases(0), lost->leases(1)}))),
            (std::vector<uint64_t>{0, 10, 20, 30}));
}

TEST(RangeQueueTest, SuccessorsLeasesStayWhenThePredecessorIsReclaimed) {
  RangeQueue queue;
  ASSERT_TRUE(queue.Define(Definition("train/0", 3)).ok());
  ASSERT_TRUE(queue.Lease(LeaseRequest(0, 1, 1, 1)).ok());
  ASSERT_TRUE(queue.Lease(LeaseRequest(0, 2, 1, 1)).ok());
  queue.Reclaim(WorkerIndex(0), Generation(1));
  EXPECT_EQ(Begins(*queue.Lease(LeaseRequest(0, 2, 2, 9))),
            (std::vector<uint64_t>{0, 20}));
}

TEST(RangeQueueTest, RepeatedCallGetsTheSameLeases) {
  RangeQueue queue;
  ASSERT_TRUE(queue.Define(Definition("train/0", 3)).ok());
  const auto first = queue.Lease(LeaseRequest(0, 1, 1, 1));
  const auto again = queue.Lease(LeaseRequest(0, 1, 1, 1));
  EXPECT_EQ(first->SerializeAsString(), again->SerializeAsString());
  EXPECT_EQ(Begins(*queue.Lease(LeaseRequest(0, 1, 2, 1))),
            std::vector<uint64_t>{10});
}

TEST(RangeQueueTest, LateRepetitionLeasesNothing) {
  RangeQueue queue;
  ASSERT_TRUE(queue.Define(Definition("train/0", 100)).ok());
  const auto first = queue.Lease(LeaseRequest(0, 1, 1, 1));
  // Not the last: the calls of several threads come in any order.
  for (uint64_t request = cluster::kMaxLeaseCallSpan; request > 1; --request) {
    ASSERT_TRUE(queue.Lease(LeaseRequest(0, 1, request, 1)).ok());
  }
  EXPECT_EQ(queue.Lease(LeaseRequest(0, 1, 1, 1))->SerializeAsString(),
            first->SerializeAsString());
  ASSERT_TRUE(
      queue.Lease(LeaseRequest(0, 1, cluster::kMaxLeaseCallSpan + 1, 0)).ok());
  v1::RangeQueueState before;
  queue.Save(&before);
  EXPECT_EQ(queue.Lease(LeaseRequest(0, 1, 1, 1)).status().code(),
            absl::StatusCode::kInvalidArgument);
  v1::RangeQueueState after;
  queue.Save(&after);
  EXPECT_EQ(after.SerializeAsString(), before.SerializeAsString());
  queue.Load(after);
  EXPECT_EQ(queue.Lease(LeaseRequest(0, 1, 1, 1)).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(queue.Lease(LeaseRequest(0, 1, 2, 1)).ok());
}

TEST(RangeQueueTest, CallForNoRangesOnlySaysWhatIsDone) {
  RangeQueue queue;
  ASSERT_TRUE(queue.Define(Definition("train/0", 1)).ok());
  EXPECT_FALSE(queue.Lease(LeaseRequest(0, 1, 1, 0))->exhausted());
  const auto lease = queue.Lease(LeaseRequest(0, 1, 2, 1));
  ASSERT_EQ(lease->leases_size(), 1);
  const auto done = queue.Lease(LeaseRequest(0, 1, 3, 0, {lease->leases(0)}));
  EXPECT_EQ(done->leases_size(), 0);
  EXPECT_TRUE(done->exhausted());
}

TEST(RangeQueueTest, IllegalCallsAreInvalidArgument) {
  RangeQueue queue;
  ASSERT_TRUE(queue.Define(Definition("train/0", 3)).ok());
  EXPECT_EQ(queue.Lease(LeaseRequest(0, 1, 0, 1)).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(queue.Define(Definition("", 3)).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(RangeQueueTest, FinishedPhasesMakeRoomForUnfinishedOnes) {
  RangeQueue queue;
  for (size_t i = 0; i < RangeQueue::kMaxUnfinishedPhases; ++i) {
    ASSERT_TRUE(
        queue.Define(Definition(i == 0 ? "train/0" : std::to_string(i), 1))
            .ok());
  }
  EXPECT_EQ(queue.Define(Definition("more", 1)).code(),
            absl::StatusCode::kResourceExhausted);
  const auto lease = queue.Lease(LeaseRequest(0, 1, 1, 1));
  ASSERT_TRUE(
      queue.Lease(LeaseRequest(0, 1, 2, 1, {lease->leases(0)}))->exhausted());
  EXPECT_TRUE(queue.Define(Definition("more", 1)).ok());
}

v1::PushCompletion CompletionOf(uint64_t generation, uint64_t sequence) {
  v1::PushCompletion completion;
  completion.mutable_worker()->set_worker_index(7);
  completion.mutable_worker()->set_worker_generation(generation);
  completion.set_sequence(sequence);
  return completion;
}

TEST(RangeQueueTest, PushCompletionsGoBeforeRangesAndCountAsThem) {
  RangeQueue queue;
  ASSERT_TRUE(queue.Define(Definition("train/0", 2)).ok());
  queue.Return({"train/0",
                {},
                {CompletionOf(1, 5), CompletionOf(1, 6), CompletionOf(2, 7)}});
  const auto first = queue.Lease(LeaseRequest(0, 1, 1, 2));
  ASSERT_EQ(first->push_completions_size(), 2);
  EXPECT_EQ(first->ranges_size(), 0);
  EXPECT_EQ(first->push_completions(0).sequence(), 5u);
  EXPECT_EQ(first->push_completions(1).sequence(), 6u);
  const auto second = queue.Lease(LeaseRequest(1, 2, 1, 2));
  ASSERT_EQ(second->push_completions_size(), 1);
  ASSERT_EQ(second->leases_size(), 1);
  std::set<uint64_t> leases = {
      first->push_completions(0).lease(), first->push_completions(1).lease(),
      second->push_completions(0).lease(), second->leases(0)};
  EXPECT_EQ(leases.size(), 4u);
  EXPECT_EQ(queue.num_push_completions(), 3u);
  // The same call gets the same push completions.
  EXPECT_EQ(queue.Lease(LeaseRequest(0, 1, 1, 2))->SerializeAsString(),
            first->SerializeAsString());
  EXPECT_EQ(queue.num_push_completions(), 3u);
}

TEST(RangeQueueTest, APhaseIsNotOverBeforeItsPushCompletionsAreDone) {
  RangeQueue queue;
  ASSERT_TRUE(queue.Define(Definition("train/0", 0)).ok());
  EXPECT_TRUE(queue.Lease(LeaseRequest(0, 1, 1, 1))->exhausted());
  queue.Return({"train/0", {}, {CompletionOf(1, 5)}});
  EXPECT_TRUE(queue.HasPushCompletionsOf(WorkerIndex(7), Generation(1)));
  EXPECT_FALSE(queue.HasPushCompletionsOf(WorkerIndex(7), Generation(2)));
  EXPECT_FALSE(queue.Lease(LeaseRequest(0, 1, 2, 0))->exhausted());
  const auto leased = queue.Lease(LeaseRequest(0, 1, 3, 1));
  ASSERT_EQ(leased->push_completions_size(), 1);
  EXPECT_FALSE(queue.Lease(LeaseRequest(0, 1, 4, 1))->exhausted());
  EXPECT_TRUE(queue.HasPushCompletionsOf(WorkerIndex(7), Generation(1)));
  // Another one cannot say that it is done.
  const uint64_t lease = leased->push_completions(0).lease();
  EXPECT_FALSE(queue.Lease(LeaseRequest(1, 2, 1, 1, {lease}))->exhausted());
  EXPECT_TRUE(queue.Lease(LeaseRequest(0, 1, 5, 1, {lease}))->exhausted());
  EXPECT_FALSE(queue.HasPushCompletionsOf(WorkerIndex(7), Generation(1)));
  EXPECT_EQ(queue.num_push_completions(), 0u);
}

TEST(RangeQueueTest, WhatIsClaimedIsOfOneGenerationAndNotCovered) {
  RangeQueue queue;
  ASSERT_TRUE(queue.Define(Definition("train/0", 3)).ok());
  queue.Return({"train/0", {}, {CompletionOf(1, 5), CompletionOf(1, 6)}});
  ASSERT_TRUE(queue.Lease(LeaseRequest(0, 1, 1, 3)).ok());
  ASSERT_TRUE(queue.Lease(LeaseRequest(0, 2, 1, 1)).ok());
  v1::DataRange covered;
  covered.set_begin(2);
  covered.set_end(5);
  queue.Cover("train/0", covered);
  const std::vector<RangeShare> shares =
      queue.Claim(WorkerIndex(0), Generation(1));
  ASSERT_EQ(shares.size(), 1u);
  EXPECT_EQ(shares[0].phase_name, "train/0");
  ASSERT_EQ(shares[0].push_completions.size(), 2u);
  ASSERT_EQ(shares[0].ranges.size(), 2u);
  EXPECT_EQ(shares[0].ranges[0].end(), 2u);
  EXPECT_EQ(shares[0].ranges[1].begin(), 5u);
  EXPECT_EQ(shares[0].ranges[1].skip_lines(), 5u);
  EXPECT_EQ(queue.num_push_completions(), 0u);
  queue.Return(shares[0]);
  EXPECT_EQ(queue.num_push_completions(), 2u);
  EXPECT_EQ(Begins(*queue.Lease(LeaseRequest(1, 3, 1, 9))),
            (std::vector<uint64_t>{0, 5, 20}));
}

TEST(RangeQueueTest, ARangeThatIsReclaimedAndCoveredCountsAsFinished) {
  RangeQueue queue;
  for (size_t i = 0; i < RangeQueue::kMaxUnfinishedPhases; ++i) {
    ASSERT_TRUE(
        queue.Define(Definition(i == 0 ? "train/0" : std::to_string(i), 1))
            .ok());
  }
  ASSERT_EQ(queue.Lease(LeaseRequest(0, 1, 1, 1))->leases_size(), 1);
  v1::DataRange all;
  all.set_end(10);
  queue.Cover("train/0", all);
  queue.Reclaim(WorkerIndex(0), Generation(1));
  EXPECT_TRUE(queue.Define(Definition("more", 1)).ok());
}

// Workers lease, finish, repeat calls and die at random; every range is done
// at least once, and by exactly one worker that nobody took for dead.
TEST(RangeQueueTest, RandomLivesAndDeathsFinishEveryRangeOnce) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    RandomSequence random(seed);
    constexpr int kRanges = 50;
    constexpr int kWorkers = 4;
    RangeQueue queue;
    ASSERT_TRUE(queue.Define(Definition("train/0", kRanges)).ok());
    struct Worker {
      uint64_t generation = 1;
      uint64_t request = 0;
      std::map<uint64_t, uint64_t> held;  // lease to begin
    };
    std::vector<Worker> workers(kWorkers);
    std::multiset<uint64_t> done;
    bool exhausted = false;
    for (int turn = 0; turn < 20000 && !exhausted; ++turn) {
      const auto index = static_cast<uint32_t>(random.Below(kWorkers));
      Worker& worker = workers[index];
      if (random.Below(40) == 0) {
        queue.Reclaim(WorkerIndex(index), Generation(worker.generation));
        worker = Worker{worker.generation + 1, 0, {}};
        continue;
      }
      std::vector<uint64_t> finished;
      for (const auto& [lease, begin] : worker.held) {
        if (random.Below(2) == 0) finished.push_back(lease);
      }
      const v1::LeaseRangesRequest request =
          LeaseRequest(index, worker.generation, ++worker.request,
                       1 + static_cast<uint32_t>(random.Below(3)), finished);
      auto response = queue.Lease(request);
      ASSERT_TRUE(response.ok());
      if (random.Below(4) == 0) response = queue.Lease(request);
      for (uint64_t lease : finished) {
        done.insert(worker.held[lease]);
        worker.held.erase(lease);
      }
      for (int i = 0; i < response->leases_size(); ++i) {
        ASSERT_TRUE(
            worker.held
                .emplace(response->leases(i), response->ranges(i).begin())
                .second);
      }
      exhausted = response->exhausted();
    }
    ASSERT_TRUE(exhausted);
    ASSERT_EQ(done.size(), kRanges);
    for (uint64_t i = 0; i < kRanges; ++i) EXPECT_EQ(done.count(i * 10), 1u);
  }
}

}  // namespace
}  // namespace oarlock::coordinator
