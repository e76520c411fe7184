// Marks in sync mode: a cut ends with a round.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/call_and_wait.h"
#include "base/clock.h"
#include "base/random.h"
#include "tests/base/eventually.h"
#include "tests/worker/cut/cut_marker_testing.h"
#include "tests/worker/cut_oracle.h"
#include "worker/cut/cut_marker.h"

namespace oarlock::worker {
namespace {

TEST(CutMarkerRoundsTest, MarkWaitsForARoundThatThisWorkerTakesPartIn) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    RandomSequence random(seed);
    // Rounds that marks have told; one example each.
    absl::Mutex mutex;
    std::vector<std::pair<uint64_t, uint64_t>> in_marks;
    uint64_t marked = 0;
    const FakeClock clock;
    CutOracle oracle(0);
    Servers servers(&oracle, seed);
    CuttingJob job(
        [&](uint64_t cut, const std::vector<v1::TrainedExamples>& trained) {
          absl::MutexLock lock(&mutex);
          marked = cut;
          for (const v1::TrainedExamples& phase : trained) {
            for (const v1::DataRange& range : phase.ranges()) {
              in_marks.emplace_back(range.begin(), range.end());
            }
          }
          return absl::OkStatus();
        });
    CutMarker marker(&servers, &job, CutMarker::Numbering::kByRound, clock);
    marker.JoinedRounds(0);
    uint64_t round = 0;
    const auto push_round = [&] {
      ++round;
      client::PushRequest push;
      push.round = round;
      push.examples.push_back({0, round, round + 1});
      ASSERT_TRUE(CallAndWait([&](client::ParameterClient::Done done) {
                    marker.Push(kPhaseName, push, nullptr, nullptr,
                                std::move(done));
                  }).ok());
    };
    const auto expect_in_marks = [&](uint64_t cut, uint64_t begin,
                                     uint64_t end) {
      ASSERT_TRUE(Eventually([&] {
        absl::MutexLock lock(&mutex);
        return marked == cut;
      }));
      absl::MutexLock lock(&mutex);
      if (begin == end) {
        EXPECT_TRUE(in_marks.empty());
      } else {
        ASSERT_EQ(in_marks.size(), 1u);
        EXPECT_EQ(in_marks[0], std::pair(begin, end));
      }
      in_marks.clear();
    };
    uint64_t marked_through = 0;
    for (uint64_t cut = 1; cut <= 6; ++cut) {
      const uint64_t last = round + random.Below(4);
      job.Heartbeat(cut, 0);  // not known yet
      job.Heartbeat(cut, last);
      while (round < last) {
        {
          absl::MutexLock lock(&mutex);
          EXPECT_EQ(marked, cut - 1);
        }
        push_round();
      }
      if (last == 0) {
        // There is no such round: the next heartbeat knows.
        push_round();
        job.Heartbeat(cut, 1);
        expect_in_marks(cut, 1, 2);
        marked_through = 1;
        continue;
      }
      expect_in_marks(cut, marked_through + 1, last + 1);
      marked_through = last;
      for (uint64_t more = random.Below(3); more > 0; --more) push_round();
    }
    push_round();
    // Others go on; this worker has no part in it.
    marker.LeftRounds();
    job.Heartbeat(7, round + 3);
    expect_in_marks(7, marked_through + 1, round + 1);
  }
}

// Rounds 1 to 5 are done when the worker says what is left to say; it has heard
// of no cut so far.
TEST(CutMarkerRoundsTest,
     TheRestLiesBehindACutThatWasOpenedSinceTheLastHeartbeat) {
  using InMark = std::pair<uint64_t, std::pair<uint64_t, uint64_t>>;
  const struct {
    std::deque<std::pair<uint64_t, uint64_t>> said;
    // Cut, first round, end of the rounds.
    std::vector<InMark> in_marks;
  } kCases[] = {
      // No cut is open.
      {{{0, 0}}, {{1, {1, 6}}}},
      // One is, and it ends with round 3.
      {{{1, 3}}, {{1, {1, 4}}, {2, {4, 6}}}},
      // The same; its round is known only later.
      {{{1, 0}, {1, 0}, {1, 3}}, {{1, {1, 4}}, {2, {4, 6}}}},
      // All rounds lie before it.
      {{{1, 5}}, {{1, {1, 6}}}},
      // It was made before any round, or given up: none of them is in it.
      {{{1, 0}}, {{2, {1, 6}}}},
  };
  for (const auto& [said, expected] : kCases) {
    SCOPED_TRACE(absl::StrCat(said.front().first, " ", said.back().second));
    absl::Mutex mutex;
    std::vector<InMark> in_marks;
    FakeClock clock;
    CutOracle oracle(0);
    Servers servers(&oracle, 1);
    CuttingJob job(
        [&](uint64_t cut, const std::vector<v1::TrainedExamples>& trained) {
          absl::MutexLock lock(&mutex);
          for (const v1::TrainedExamples& phase : trained) {
            for (const v1::DataRange& range : phase.ranges()) {
              in_marks.push_back({cut, {range.begin(), range.end()}});
            }
          }
          return absl::OkStatus();
        });
    CutMarker marker(&servers, &job, CutMarker::Numbering::kByRound, clock);
    marker.JoinedRounds(0);
    for (uint64_t round = 1; round <= 5; ++round) {
      client::PushRequest push;
      push.round = round;
      push.examples.push_back({0, round, round + 1});
      ASSERT_TRUE(CallAndWait([&](client::ParameterClient::Done done) {
                    marker.Push(kPhaseName, push, nullptr, nullptr,
                                std::move(done));
                  }).ok());
    }
    marker.LeftRounds();
    job.Say(said);
    std::atomic<bool> reported = false;
    std::thread worker([&] {
      EXPECT_TRUE(marker.ReportRest().ok());
      reported = true;
    });
    // It pauses between its questions.
    EXPECT_TRUE(Eventually([&] {
      clock.Advance(absl::Milliseconds(10));
      return reported.load();
    }));
    worker.join();
    absl::MutexLock lock(&mutex);
    EXPECT_EQ(in_marks, expected);
  }
}

}  // namespace
}  // namespace oarlock::worker
