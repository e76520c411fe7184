#include "worker/input/leased_work.h"

#include <gtest/gtest.h>

#include "absl/time/time.h"
#include "base/clock.h"
#include "tests/worker/fake_job_client.h"

namespace oarlock::worker {
namespace {

data::WorkItem Item(uint64_t lease) {
  data::WorkItem item;
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

LeasedWork::RunCompletion NoPushCompletion() {
  return [](const client::PushCompletion& completion) {
    ADD_FAILURE() << "lease " << completion.lease;
    return absl::OkStatus();
  };
}

TEST(LeasedWorkTest, GivesOneRangeAtATimeUntilNothingIsLeft) {
  const SkippingClock clock;
  FakeJobClient job;
  job.items = {Item(1), Item(2)};
  LeasedWork work(&job, "train/0", NoPushCompletion(), clock);
  for (uint64_t lease : {1, 2}) {
    const absl::StatusOr<std::optional<data::WorkItem>> item = work.Next();
    ASSERT_TRUE(item.ok() && item->has_value());
    EXPECT_EQ((*item)->lease, lease);
    EXPECT_EQ((*item)->begin, lease * 10);
    EXPECT_EQ((*item)->source, 3u);
    EXPECT_EQ(job.lease_calls.back().work, "train/0");
    EXPECT_EQ(job.lease_calls.back().max_items, 1u);
  }
  const absl::StatusOr<std::optional<data::WorkItem>> end = work.Next();
  ASSERT_TRUE(end.ok());
  EXPECT_FALSE(end->has_value());
}

TEST(LeasedWorkTest, WaitsForWhatComesBackAndGivesItNext) {
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
  LeasedWork work(
      &job, "train/0",
      [&](const client::PushCompletion& completion) {
        EXPECT_EQ(completion.lease, 8u);
        ++num_completions;
        return absl::OkStatus();
      },
      clock);
  EXPECT_FALSE((*work.Next()).has_value());
  ASSERT_TRUE(*work.AwaitMore());
  EXPECT_EQ(num_completions, 0);
  EXPECT_FALSE((*work.Next()).has_value());
  EXPECT_EQ(num_completions, 1);
  EXPECT_EQ(job.lease_calls.back().done, (std::vector<uint64_t>{8}));
  ASSERT_TRUE(*work.AwaitMore());
  const absl::StatusOr<std::optional<data::WorkItem>> item = work.Next();
  ASSERT_TRUE(item.ok() && item->has_value());
  EXPECT_EQ((*item)->lease, 2u);
  EXPECT_FALSE((*work.Next()).has_value());
  EXPECT_FALSE(*work.AwaitMore());
  EXPECT_EQ(looks, 15u);
  // Three, two and four pauses, each twice as long as the one before it.
  EXPECT_EQ(clock.Now() - absl::UnixEpoch(), absl::Milliseconds(7 + 3 + 15));
}

TEST(LeasedWorkTest, WaitEndsWithTheJob) {
  const SkippingClock clock;
  FakeJobClient job;
  job.exhausted_when_empty = false;
  job.on_lease = [&] { job.alive = absl::CancelledError("drained"); };
  LeasedWork work(&job, "train/0", NoPushCompletion(), clock);
  EXPECT_EQ(work.AwaitMore().status(), job.alive);
  EXPECT_EQ(job.lease_calls.size(), 1u);
}

TEST(LeasedWorkTest, LeaseIsDoneOnlyWhenReported) {
  const SkippingClock clock;
  FakeJobClient job;
  job.items = {Item(1), Item(2), Item(3)};
  LeasedWork work(&job, "train/0", NoPushCompletion(), clock);
  while ((*work.Next()).has_value()) {
  }
  work.Done(Item(1));
  work.Done(Item(3));
  // Their gradients may still be on their way.
  for (const auto& call : job.lease_calls) EXPECT_TRUE(call.done.empty());
  ASSERT_TRUE(work.ReportDone().ok());
  EXPECT_EQ(job.lease_calls.back().done, (std::vector<uint64_t>{1, 3}));
  EXPECT_EQ(job.lease_calls.back().max_items, 0u);
}

TEST(LeasedWorkTest, ProgressIsReportedBeforeItsLeasesAreToldDone) {
  const SkippingClock clock;
  FakeJobClient job;
  LeasedWork work(&job, "test/0", nullptr, clock);
  work.Done(Item(1));
  ASSERT_TRUE(work.ReportDone().ok());
  ASSERT_EQ(job.lease_calls.size(), 1u);
  EXPECT_EQ(job.lease_calls[0].num_reports, 1);
}

TEST(LeasedWorkTest, LeaseIsReportedOnce) {
  const SkippingClock clock;
  FakeJobClient job;
  LeasedWork work(&job, "train/0", NoPushCompletion(), clock);
  work.Done(Item(1));
  ASSERT_TRUE(work.ReportDone().ok());
  const size_t calls = job.lease_calls.size();
  ASSERT_TRUE(work.ReportDone().ok());
  EXPECT_EQ(job.lease_calls.size(), calls);
}

TEST(LeasedWorkTest, PushCompletionsAreWorkedOffAndToldBeforeTheNextItem) {
  const SkippingClock clock;
  FakeJobClient job;
  job.items = {Item(1)};
  job.push_completions = {CompletionOf(8), CompletionOf(9)};
  std::vector<uint64_t> completed;
  LeasedWork work(
      &job, "train/0",
      [&](const client::PushCompletion& completion) {
        // None is leased while one is under way, and none is told as done.
        EXPECT_EQ(job.lease_calls.size(), completed.size() + 1);
        completed.push_back(completion.lease);
        EXPECT_EQ(completion.push->sequence, Sequence(completion.lease));
        return absl::OkStatus();
      },
      clock);
  const absl::StatusOr<std::optional<data::WorkItem>> item = work.Next();
  ASSERT_TRUE(item.ok() && item->has_value());
  EXPECT_EQ((*item)->lease, 1u);
  EXPECT_EQ(completed, (std::vector<uint64_t>{8, 9}));
  ASSERT_EQ(job.lease_calls.size(), 3u);
  EXPECT_EQ(job.lease_calls[1].done, (std::vector<uint64_t>{8}));
  EXPECT_EQ(job.lease_calls[2].done, (std::vector<uint64_t>{9}));
  // Not once more with the items.
  work.Done(Item(1));
  ASSERT_TRUE(work.ReportDone().ok());
  EXPECT_EQ(job.lease_calls.back().done, (std::vector<uint64_t>{1}));
}

TEST(LeasedWorkTest, LastPushCompletionIsToldThoughNothingElseIsLeft) {
  const SkippingClock clock;
  FakeJobClient job;
  job.push_completions = {CompletionOf(8)};
  LeasedWork work(
      &job, "train/0",
      [](const client::PushCompletion&) { return absl::OkStatus(); }, clock);
  const absl::StatusOr<std::optional<data::WorkItem>> end = work.Next();
  ASSERT_TRUE(end.ok());
  EXPECT_FALSE(end->has_value());
  EXPECT_EQ(job.lease_calls.back().done, (std::vector<uint64_t>{8}));
}

TEST(LeasedWorkTest, PushCompletionThatFailsEndsThePhaseAndIsNotTold) {
  const SkippingClock clock;
  FakeJobClient job;
  job.items = {Item(1)};
  job.push_completions = {CompletionOf(8)};
  LeasedWork work(
      &job, "train/0",
      [](const client::PushCompletion&) {
        return absl::AbortedError("fenced");
      },
      clock);
  EXPECT_EQ(work.Next().status(), absl::AbortedError("fenced"));
  EXPECT_EQ(job.lease_calls.size(), 1u);
}

TEST(LeasedWorkTest, PhaseThatPushesNothingCannotCompletePushes) {
  const SkippingClock clock;
  FakeJobClient job;
  job.push_completions = {CompletionOf(8)};
  LeasedWork work(&job, "test/0", nullptr, clock);
  EXPECT_EQ(work.Next().status().code(), absl::StatusCode::kInternal);
}

TEST(LeasedWorkTest, FailureIsReturned) {
  const SkippingClock clock;
  FakeJobClient job;
  job.items = {Item(1)};
  job.lease_status = absl::AbortedError("fenced");
  LeasedWork work(&job, "train/0", NoPushCompletion(), clock);
  EXPECT_EQ(work.Next().status(), job.lease_status);
  work.Done(Item(1));
  EXPECT_EQ(work.ReportDone(), job.lease_status);
}

}  // namespace
}  // namespace oarlock::worker
