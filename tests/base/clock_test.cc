#include "base/clock.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

#include "absl/time/clock.h"

namespace oarlock {
namespace {

TEST(ClockTest, TheRealClockIsTheMachines) {
  const absl::Time before = absl::Now();
  const absl::Time now = Clock::Real().Now();
  const absl::Time after = absl::Now();
  // Wall clocks may be set while a test runs, but not by an hour.
  EXPECT_GE(now, before - absl::Hours(1));
  EXPECT_LE(now, after + absl::Hours(1));
}

TEST(ClockTest, TheMonotonicClockGoesAsFastAsTimeAndNeverBack) {
  const Clock& clock = Clock::Monotonic();
  const absl::Time start = clock.Now();
  absl::Time last = start;
  for (int i = 0; i < 1000; ++i) {
    const absl::Time now = clock.Now();
    ASSERT_GE(now, last);
    last = now;
  }
  const auto begin = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begin <
         std::chrono::milliseconds(20)) {
  }
  // `start` was before `begin`.
  EXPECT_GE(clock.Now() - start, absl::Milliseconds(20));
  EXPECT_LT(clock.Now() - start, absl::Hours(1));
}

TEST(FakeClockTest, ItStandsStillUntilItIsAdvanced) {
  FakeClock clock(absl::FromUnixSeconds(100));
  EXPECT_EQ(clock.Now(), absl::FromUnixSeconds(100));
  EXPECT_EQ(clock.Now(), absl::FromUnixSeconds(100));
  clock.Advance(absl::Milliseconds(1500));
  EXPECT_EQ(clock.Now(), absl::FromUnixMillis(101500));
}

TEST(FakeClockTest, AdvancesOfManyThreadsAddUp) {
  FakeClock clock;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&clock] {
      absl::Time last = clock.Now();
      for (int i = 0; i < 1000; ++i) {
        clock.Advance(absl::Seconds(1));
        EXPECT_GT(clock.Now(), last);
        last = clock.Now();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(clock.Now(), absl::UnixEpoch() + absl::Seconds(4000));
}

}  // namespace
}  // namespace oarlock
