#include "worker/input/leased_ranges.h"

#include <gtest/gtest.h>

#include "absl/time/time.h"
#include "base/clock.h"
#include "tests/worker/fake_job_client.h"

namespace oarlock::worker {
namespace {

data::DataRange Item(uint64_t lease) {
  data::DataRange item;
  item.source = 3;
  item.begin = lease * 10;
  item.end = lease * 10 + 10;
  item.lease = lease;
  return item;
}

client::PushCompletion CompletionOf(uint64_t lease) {
  client::PushCompletion completion;
  completion.lease = lease;
  completion.push = PushStamp{WorkerIndex(1), Generation(4), Sequence(lease)};
  return completion;
}

LeasedRanges::RunCompletion NoPushCompletion() {
  return [](const client::PushCompletion& completion) {
    ADD_FAILURE() << "lease " << completion.lease;
    return absl::OkStatus();
  };
}

TEST(LeasedRangesTest, GivesOneRangeAtATimeUntilNothingIsLeft) {
  const SkippingClock clock;
  FakeJobClient job;
  job.items = {Item(1), Item(2)};
  LeasedRanges ranges(&job, "train/0", NoPushCompletion(), clock);
  for (uint64_t lease : {1, 2}) {
    const absl::StatusOr<std::optional<data::DataRange>> item = ranges.Next();
    ASSERT_TRUE(item.ok() && item->has_value());
    EXPECT_EQ((*item)->lease, lease);
    EXPECT_EQ((*item)->begin, lease * 10);
    EXPECT_EQ((*item)->source, 3u);
    EXPECT_EQ(job.lease_calls.back().phase_name, "train/0");
    EXPECT_EQ(job.lease_calls.back().max_items, 1u);
  }
  const absl::StatusOr<std::optional<data::DataRange>> end = ranges.Next();
  ASSERT_TRUE(end.ok());
  EXPECT_FALSE(end->has_value());
}

TEST(LeasedRangesTest, WaitsForWhatComesBackAndGivesItNext) {
  const SkippingClock clock;
  FakeJobClient job;
  job.exhausted_when_empty = false;
  uint64_t looks = 0;
  job.on_lease = [&] {
    // What the others have is taken back, a push completion and then an item.
    if (++looks == 5) job.push_completions = {CompletionOf(8)};
    if (looks == 9) job.items = {Item(2)};
    if (looks == 15) job.exhausted_when_empty = true;
  };
  int num_completions = 0;
  LeasedRanges ranges(
      &job, "train/0",
      [&](const client::PushCompletion& completion) {
        EXPECT_EQ(completion.lease, 8u);
        ++num_completions;
        return absl::OkStatus();
      },
      clock);
  EXPECT_FALSE((*ranges.Next()).has_value());
  ASSERT_TRUE(*ranges.AwaitMore());
  EXPECT_EQ(num_completions, 0);
  EXPECT_FALSE((*ranges.Next()).has_value());
  EXPECT_EQ(num_completions, 1);
  EXPECT_EQ(job.lease_calls.back().done, (std::vector<uint64_t>{8}));
  ASSERT_TRUE(*ranges.AwaitMore());
  const absl::StatusOr<std::optional<data::DataRange>> item = ranges.Next();
  ASSERT_TRUE(item.ok() && item->has_value());
  EXPECT_EQ((*item)->lease, 2u);
  EXPECT_FALSE((*ranges.Next()).has_value());
  EXPECT_FALSE(*ranges.AwaitMore());
  EXPECT_EQ(looks, 15u);
  // Three, two and four pauses, each twice as long as the one before it.
  EXPECT_EQ(clock.Now() - absl::UnixEpoch(), absl::Milliseconds(7 + 3 + 15));
}

TEST(LeasedRangesTest, WaitEndsWithTheJob) {
  const SkippingClock clock;
  FakeJobClient job;
  job.exhausted_when_empty = false;
  job.on_lease = [&] { job.alive = absl::CancelledError("drained"); };
  LeasedRanges ranges(&job, "train/0", NoPushCompletion(), clock);
  EXPECT_EQ(ranges.AwaitMore().status(), job.alive);
  EXPECT_EQ(job.lease_calls.size(), 1u);
}

TEST(LeasedRangesTest, LeaseIsDoneOnlyWhenReported) {
  const SkippingClock clock;
  FakeJobClient job;
  job.items = {Item(1), Item(2), Item(3)};
  LeasedRanges ranges(&job, "train/0", NoPushCompletion(), clock);
  while ((*ranges.Next()).has_value()) {
  }
  ranges.Done(Item(1));
  ranges.Done(Item(3));
  // Their gradients may still be on their way.
  for (const auto& call : job.lease_calls) EXPECT_TRUE(call.done.empty());
  ASSERT_TRUE(ranges.ReportDone().ok());
  EXPECT_EQ(job.lease_calls.back().done, (std::vector<uint64_t>{1, 3}));
  EXPECT_EQ(job.lease_calls.back().max_items, 0u);
}

TEST(LeasedRangesTest, ProgressIsReportedBeforeItsLeasesAreReportedDone) {
  const SkippingClock clock;
  FakeJobClient job;
  LeasedRanges ranges(&job, "test/0", nullptr, clock);
  ranges.Done(Item(1));
  ASSERT_TRUE(ranges.ReportDone().ok());
  ASSERT_EQ(job.lease_calls.size(), 1u);
  EXPECT_EQ(job.lease_calls[0].num_reports, 1);
}

TEST(LeasedRangesTest, LeaseIsReportedOnce) {
  const SkippingClock clock;
  FakeJobClient job;
  LeasedRanges ranges(&job, "train/0", NoPushCompletion(), clock);
  ranges.Done(Item(1));
  ASSERT_TRUE(ranges.ReportDone().ok());
  const size_t calls = job.lease_calls.size();
  ASSERT_TRUE(ranges.ReportDone().ok());
  EXPECT_EQ(job.lease_calls.size(), calls);
}

TEST(LeasedRangesTest,
     PushCompletionsAreWorkedOffAndReportedBeforeTheNextItem) {
  const SkippingClock clock;
  FakeJobClient job;
  job.items = {Item(1)};
  job.push_completions = {CompletionOf(8), CompletionOf(9)};
  std::vector<uint64_t> completed;
  LeasedRanges ranges(
      &job, "train/0",
      [&](const client::PushCompletion& completion) {
        // None is leased while one is under way, and none is told as done.
        EXPECT_EQ(job.lease_calls.size(), completed.size() + 1);
        completed.push_back(completion.lease);
        EXPECT_EQ(completion.push->sequence, Sequence(completion.lease));
        return absl::OkStatus();
      },
      clock);
  const absl::StatusOr<std::optional<data::DataRange>> item = ranges.Next();
  ASSERT_TRUE(item.ok() && item->has_value());
  EXPECT_EQ((*item)->lease, 1u);
  EXPECT_EQ(completed, (std::vector<uint64_t>{8, 9}));
  ASSERT_EQ(job.lease_calls.size(), 3u);
  EXPECT_EQ(job.lease_calls[1].done, (std::vector<uint64_t>{8}));
  EXPECT_EQ(job.lease_calls[2].done, (std::vector<uint64_t>{9}));
  // Not once more with the items.
  ranges.Done(Item(1));
  ASSERT_TRUE(ranges.ReportDone().ok());
  EXPECT_EQ(job.lease_calls.back().done, (std::vector<uint64_t>{1}));
}

TEST(LeasedRangesTest, LastPushCompletionIsReportedThoughNothingElseIsLeft) {
  const SkippingClock clock;
  FakeJobClient job;
  job.push_completions = {CompletionOf(8)};
  LeasedRanges ranges(
      &job, "train/0",
      [](const client::PushCompletion&) { return absl::OkStatus(); }, clock);
  const absl::StatusOr<std::optional<data::DataRange>> end = ranges.Next();
  ASSERT_TRUE(end.ok());
  EXPECT_FALSE(end->has_value());
  EXPECT_EQ(job.lease_calls.back().done, (std::vector<uint64_t>{8}));
}

TEST(LeasedRangesTest, PushCompletionThatFailsEndsThePhaseAndIsNotReported) {
  const SkippingClock clock;
  FakeJobClient job;
  job.items = {Item(1)};
  job.push_completions = {CompletionOf(8)};
  LeasedRanges ranges(
      &job, "train/0",
      [](const client::PushCompletion&) {
        return absl::AbortedError("fenced");
      },
      clock);
  EXPECT_EQ(ranges.Next().status(), absl::AbortedError("fenced"));
  EXPECT_EQ(job.lease_calls.size(), 1u);
}

TEST(LeasedRangesTest, PhaseThatPushesNothingCannotCompletePushes) {
  const SkippingClock clock;
  FakeJobClient job;
  job.push_completions = {CompletionOf(8)};
  LeasedRanges ranges(&job, "test/0", nullptr, clock);
  EXPECT_EQ(ranges.Next().status().code(), absl::StatusCode::kInternal);
}

TEST(LeasedRangesTest, FailureIsReturned) {
  const SkippingClock clock;
  FakeJobClient job;
  job.items = {Item(1)};
  job.lease_status = absl::AbortedError("fenced");
  LeasedRanges ranges(&job, "train/0", NoPushCompletion(), clock);
  EXPECT_EQ(ranges.Next().status(), job.lease_status);
  ranges.Done(Item(1));
  EXPECT_EQ(ranges.ReportDone(), job.lease_status);
}

}  // namespace
}  // namespace oarlock::worker
