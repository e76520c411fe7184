// Buckets of a vector that becomes final from its end, summed over real ranks.

#include "fleet/data_parallel/bucket_reducer.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "tests/collective/group_testing.h"

namespace oarlock {
namespace {

// Each look at it takes a millisecond: between any two some time has gone by,
// and between none there is none.
class LookedAtClock final : public FakeClock {
 public:
  absl::Time Now() const override {
    GoOn(absl::Milliseconds(1));
    return FakeClock::Now();
  }
};

constexpr size_t kFloats = 1 << 18;
constexpr size_t kBucket = kFloats / 4;
constexpr int kRanks = 2;

// Runs `step` on each of two ranks, with a reducer and as many floats as
// kFloats, all of which are the rank's number + 1.
void OnRanks(const std::function<absl::Status(BucketReducer& reducer,
                                              absl::Span<float> gradients,
                                              const Clock& clock)>& step) {
  const std::vector<absl::Status> outcomes = collective::RunRanks(
      collective::Backends()[0], kRanks,
      [&](collective::Communicator& communicator) -> absl::Status {
        OARLOCK_ASSIGN_OR_RETURN(std::unique_ptr<collective::Communicator> fork,
                                 communicator.Fork());
        const LookedAtClock clock;
        BucketReducer reducer(fork.get(), kBucket,
                              collective::WireFormat::kFloat32, clock);
        std::vector<float> gradients(
            kFloats, static_cast<float>(communicator.rank() + 1));
        OARLOCK_RETURN_IF_ERROR(
            step(reducer, absl::MakeSpan(gradients), clock));
        EXPECT_EQ(gradients, std::vector<float>(kFloats, 3.0f));
        return absl::OkStatus();
      });
  for (const absl::Status& outcome : outcomes) {
    EXPECT_TRUE(outcome.ok()) << outcome;
  }
}

TEST(BucketReducerTest, NothingIsCommunicatedBeforeTheFirstBucketIsFull) {
  OnRanks([](BucketReducer& reducer, absl::Span<float> gradients,
             const Clock& clock) {
    reducer.Final(gradients, kFloats - kBucket + 1);
    EXPECT_EQ(reducer.times().communication, absl::ZeroDuration());
    EXPECT_EQ(reducer.times().exposed, absl::ZeroDuration());
    return reducer.Finish(gradients);
  });
}

TEST(BucketReducerTest, TakesWhatFillsABucketAndWhatIsLast) {
  OnRanks([](BucketReducer& reducer, absl::Span<float> gradients,
             const Clock& clock) {
    EXPECT_FALSE(reducer.Takes(kFloats, kFloats - kBucket + 1));
    EXPECT_TRUE(reducer.Takes(kFloats, kFloats - kBucket));
    EXPECT_TRUE(reducer.Takes(kFloats, 0));
    reducer.Final(gradients, kFloats - kBucket);
    EXPECT_FALSE(reducer.Takes(kFloats, kFloats - 2 * kBucket + 1));
    EXPECT_TRUE(reducer.Takes(kFloats, kFloats - 2 * kBucket));
    return reducer.Finish(gradients);
  });
}

TEST(BucketReducerTest, WhatIsSummedBeforeTheEndOfBackwardIsHiddenWholly) {
  OnRanks([](BucketReducer& reducer, absl::Span<float> gradients,
             const Clock& clock) {
    // One bucket, so that its time says that all is summed.
    reducer.Final(gradients, 0);
    while (reducer.times().communication == absl::ZeroDuration()) {
      std::this_thread::yield();
    }
    const absl::Status status = reducer.Finish(gradients);
    EXPECT_EQ(reducer.times().exposed, absl::ZeroDuration());
    return status;
  });
}

TEST(BucketReducerTest, WhatBeginsAtTheEndOfBackwardIsExposed) {
  OnRanks([](BucketReducer& reducer, absl::Span<float> gradients,
             const Clock& clock) {
    const absl::Time start = clock.Now();
    const absl::Status status = reducer.Finish(gradients);
    const absl::Duration elapsed = clock.Now() - start;
    const ExchangeTimes times = reducer.times();
    EXPECT_GT(times.communication, absl::ZeroDuration());
    EXPECT_LE(times.communication, elapsed);
    EXPECT_GT(times.exposed, absl::ZeroDuration());
    EXPECT_LE(times.exposed, times.communication);
    return status;
  });
}

TEST(BucketReducerTest, TimesAreThoseOfAllSteps) {
  OnRanks([](BucketReducer& reducer, absl::Span<float> gradients,
             const Clock& clock) {
    std::vector<float> other(kFloats, 1.0f);
    OARLOCK_RETURN_IF_ERROR(reducer.Finish(absl::MakeSpan(other)));
    EXPECT_EQ(other, std::vector<float>(kFloats, 2.0f));
    const ExchangeTimes first = reducer.times();
    for (size_t begin = kFloats; begin > 0; begin -= kBucket) {
      reducer.Final(gradients, begin);
    }
    const absl::Status status = reducer.Finish(gradients);
    EXPECT_GT(reducer.times().communication, first.communication);
    EXPECT_GE(reducer.times().exposed, first.exposed);
    EXPECT_LE(reducer.times().exposed, reducer.times().communication);
    return status;
  });
}

}  // namespace
}  // namespace oarlock
