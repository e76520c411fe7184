#include "base/clock.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "base/check.h"
#include "tests/base/eventually.h"
#include "tests/base/skippable_clock.h"

namespace oarlock {
namespace {

constexpr absl::Duration kDeadline = absl::Minutes(1);

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

TEST(ClockTest, TheMachinesClocksSleepAtLeastAsLongAsTheyAreTold) {
  const absl::Time start = Clock::Monotonic().Now();
  Clock::Real().Sleep(absl::Milliseconds(10));
  Clock::Monotonic().Sleep(absl::Milliseconds(10));
  EXPECT_GE(Clock::Monotonic().Now() - start, absl::Milliseconds(20));
  Clock::Monotonic().Sleep(absl::Hours(-1));
}

TEST(ClockTest, AWaitOfTheMachinesClocksEndsWithItsConditionOrItsTime) {
  for (const Clock* clock : {&Clock::Real(), &Clock::Monotonic()}) {
    absl::Mutex mutex;
    bool ready = false;
    absl::MutexLock lock(&mutex);
    EXPECT_FALSE(clock->AwaitFor(&mutex, absl::Condition(&ready),
                                 absl::Milliseconds(5)));
    std::thread other([&] {
      absl::MutexLock lock(&mutex);
      ready = true;
    });
    EXPECT_TRUE(clock->AwaitUntil(&mutex, absl::Condition(&ready),
                                  clock->Now() + absl::Hours(1)));
    other.join();
  }
}

TEST(ClockTest, DeadlinesOfGrpcAreOfTheMachinesClock) {
  const absl::Time before = absl::Now();
  const absl::Time deadline = absl::FromChrono(GrpcDeadline(absl::Hours(1000)));
  EXPECT_GT(deadline, before + absl::Hours(999));
  EXPECT_LT(deadline, before + absl::Hours(1001));
  EXPECT_EQ(GrpcDeadline(absl::InfiniteDuration()),
            std::chrono::system_clock::time_point::max());
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

// Its sleepers say how far they have come.
class FakeSleepTest : public ::testing::Test {
 protected:
  ~FakeSleepTest() override {
    for (std::thread& thread : threads_) thread.join();
  }

  // Sleeps for each of the durations.
  void Start(std::vector<absl::Duration> durations) {
    threads_.emplace_back([this, durations] {
      for (const absl::Duration duration : durations) {
        clock_.Sleep(duration);
        absl::MutexLock lock(&mutex_);
        ++num_slept_;
      }
    });
  }
  bool HaveSlept(int count) {
    absl::MutexLock lock(&mutex_);
    const auto all = [this, count] { return num_slept_ >= count; };
    return mutex_.AwaitWithTimeout(absl::Condition(&all), kDeadline);
  }
  int num_slept() {
    absl::MutexLock lock(&mutex_);
    return num_slept_;
  }

  FakeClock clock_;

 private:
  absl::Mutex mutex_;
  int num_slept_ = 0;
  std::vector<std::thread> threads_;
};

TEST_F(FakeSleepTest, ASleepEndsWhenItsTimeHasGoneByAndNotBefore) {
  Start({absl::Seconds(10), absl::Seconds(5)});
  ASSERT_TRUE(clock_.AwaitWaiters(1));
  clock_.Advance(absl::Seconds(9.999));
  // It waits on.
  ASSERT_TRUE(clock_.AwaitWaiters(1));
  EXPECT_EQ(num_slept(), 0);
  clock_.Advance(absl::Seconds(.001));
  ASSERT_TRUE(HaveSlept(1));
  // The second sleep began at 10 s, if it began at all.
  ASSERT_TRUE(clock_.AwaitWaiters(1));
  clock_.Advance(absl::Seconds(5));
  ASSERT_TRUE(HaveSlept(2));
}

TEST_F(FakeSleepTest, OneAdvanceWakesAllWhoseTimeHasCome) {
  for (int i = 1; i <= 8; ++i) Start({absl::Seconds(i)});
  ASSERT_TRUE(clock_.AwaitWaiters(8));
  clock_.Advance(absl::Seconds(4));
  ASSERT_TRUE(HaveSlept(4));
  ASSERT_TRUE(clock_.AwaitWaiters(4));
  EXPECT_EQ(num_slept(), 4);
  clock_.Advance(absl::Seconds(100));
  ASSERT_TRUE(HaveSlept(8));
}

TEST_F(FakeSleepTest, WhoWasWokenDoesNotCountAsAWaiter) {
  // Whenever the one who waits is one whose sleep is over, the advance below
  // comes too early for its next sleep, and the last of them never ends.
  constexpr int kSleeps = 500;
  Start(std::vector<absl::Duration>(kSleeps, absl::Seconds(1)));
  for (int i = 0; i < kSleeps; ++i) {
    ASSERT_TRUE(clock_.AwaitWaiters(1));
    clock_.Advance(absl::Seconds(1));
  }
  EXPECT_TRUE(HaveSlept(kSleeps));
}

TEST(FakeClockTest, ASleepOfNothingIsOverAtOnce) {
  const FakeClock clock;
  clock.Sleep(absl::ZeroDuration());
  clock.Sleep(absl::Seconds(-1));
  EXPECT_EQ(clock.Now(), absl::UnixEpoch());
}

TEST(FakeClockTest, AWaitIsEndedByItsConditionWhileTheClockStandsStill) {
  FakeClock clock;
  absl::Mutex mutex;
  bool ready = false;
  std::thread other([&] {
    EXPECT_TRUE(clock.AwaitWaiters(1));
    absl::MutexLock lock(&mutex);
    ready = true;
  });
  {
    absl::MutexLock lock(&mutex);
    EXPECT_TRUE(
        clock.AwaitFor(&mutex, absl::Condition(&ready), absl::Seconds(1)));
  }
  other.join();
  EXPECT_EQ(clock.Now(), absl::UnixEpoch());
}

TEST(FakeClockTest, AWaitWhoseConditionHoldsIsOverAtOnce) {
  FakeClock clock;
  absl::Mutex mutex;
  const bool ready = true;
  absl::MutexLock lock(&mutex);
  EXPECT_TRUE(
      clock.AwaitUntil(&mutex, absl::Condition(&ready), absl::InfinitePast()));
}

TEST(FakeClockTest, AWaitThatItsTimeEndsTellsThatTheConditionDoesNotHold) {
  FakeClock clock;
  absl::Mutex mutex;
  bool ready = false;
  std::thread other([&] {
    EXPECT_TRUE(clock.AwaitWaiters(1));
    clock.Advance(absl::Seconds(1));
  });
  {
    absl::MutexLock lock(&mutex);
    EXPECT_FALSE(
        clock.AwaitFor(&mutex, absl::Condition(&ready), absl::Seconds(1)));
    EXPECT_EQ(clock.Now(), absl::UnixEpoch() + absl::Seconds(1));
  }
  other.join();
}

// Advances meet threads at every point of their way into a wait: each round
// has one advance, and whoever misses it stays for good.
TEST(FakeClockTest, NoAdvanceIsLostOnThoseAboutToWait) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 2000;
  FakeClock clock;
  const auto end_of = [](int round) {
    return absl::UnixEpoch() + absl::Seconds(round + 1);
  };
  // Two threads share a mutex, two have theirs.
  absl::Mutex mutexes[3];
  absl::Mutex mutex;
  int num_ends = 0;
  int begun_round = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      absl::Mutex& own = mutexes[t % 3];
      const bool never = false;
      for (int round = 0; round < kRounds; ++round) {
        {
          const auto begun = [&] { return begun_round >= round; };
          absl::MutexLock lock(&mutex, absl::Condition(&begun));
        }
        {
          absl::MutexLock lock(&own);
          clock.AwaitUntil(&own, absl::Condition(&never), end_of(round));
        }
        EXPECT_GE(clock.Now(), end_of(round));
        absl::MutexLock lock(&mutex);
        ++num_ends;
      }
    });
  }
  for (int round = 0; round < kRounds; ++round) {
    // From before their waits to long after they began.
    for (int i = 0; i < round % 50; ++i) std::this_thread::yield();
    clock.Advance(absl::Seconds(1));
    const auto all = [&] { return num_ends == kThreads * (round + 1); };
    absl::MutexLock lock(&mutex);
    // Else the threads would never end.
    OARLOCK_CHECK(mutex.AwaitWithTimeout(absl::Condition(&all), kDeadline));
    begun_round = round + 1;
  }
  for (std::thread& thread : threads) thread.join();
}

// The same against threads that take the waiter's mutex all the time, so that
// an advance finds it taken.
TEST(FakeClockTest, NoAdvanceIsLostOnAMutexThatOthersUse) {
  constexpr int kRounds = 500;
  FakeClock clock;
  absl::Mutex mutex;
  int num_ends = 0;
  int num_uses = 0;
  std::atomic<bool> over = false;
  std::vector<std::thread> users;
  for (int t = 0; t < 2; ++t) {
    users.emplace_back([&] {
      while (!over) {
        absl::MutexLock lock(&mutex);
        ++num_uses;
      }
    });
  }
  std::thread waiter([&] {
    const bool never = false;
    for (int round = 0; round < kRounds; ++round) {
      absl::MutexLock lock(&mutex);
      EXPECT_FALSE(
          clock.AwaitFor(&mutex, absl::Condition(&never), absl::Seconds(1)));
      ++num_ends;
    }
  });
  for (int round = 0; round < kRounds; ++round) {
    OARLOCK_CHECK(clock.AwaitWaiters(1));
    clock.Advance(absl::Seconds(1));
  }
  waiter.join();
  over = true;
  for (std::thread& user : users) user.join();
  EXPECT_EQ(num_ends, kRounds);
}

// A wake-up must not touch the mutex of a wait that is over.
TEST(FakeClockTest, AMutexMayEndAsSoonAsItsWaitDoes) {
  FakeClock clock;
  std::atomic<int> running = 4;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) {
        auto mutex = std::make_unique<absl::Mutex>();
        const bool never = false;
        absl::ReleasableMutexLock lock(mutex.get());
        clock.AwaitFor(mutex.get(), absl::Condition(&never),
                       absl::Milliseconds(i % 3));
        lock.Release();
      }
      --running;
    });
  }
  while (running > 0) clock.Advance(absl::Milliseconds(1));
  for (std::thread& thread : threads) thread.join();
}

TEST(SkippingClockTest, ASleepAdvancesIt) {
  SkippingClock clock;
  clock.Sleep(absl::Hours(1));
  clock.Sleep(absl::Seconds(1));
  EXPECT_EQ(clock.Now(), absl::UnixEpoch() + absl::Hours(1) + absl::Seconds(1));
}

TEST(SkippableClockTest, GoesOnWithItsMachine) {
  FakeClock machine(absl::UnixEpoch());
  SkippableClock clock(machine);
  machine.Advance(absl::Seconds(3));
  EXPECT_EQ(clock.Now(), absl::UnixEpoch() + absl::Seconds(3));
  clock.Skip(absl::Hours(1));
  EXPECT_EQ(clock.Now(), absl::UnixEpoch() + absl::Hours(1) + absl::Seconds(3));
}

TEST(SkippableClockTest, ASkipEndsASleep) {
  SkippableClock clock;
  std::atomic<bool> done = false;
  std::thread sleeper([&] {
    clock.Sleep(absl::Hours(10));
    done = true;
  });
  // The first may come before the sleep has begun.
  EXPECT_TRUE(Eventually([&] {
    clock.Skip(absl::Hours(11));
    return done.load();
  }));
  sleeper.join();
}

TEST(SkippableClockTest, AwaitTellsWhetherTheConditionHolds) {
  SkippableClock clock;
  bool done = false;
  absl::Mutex mutex;
  std::thread other([&] {
    absl::MutexLock lock(&mutex);
    done = true;
  });
  {
    absl::MutexLock lock(&mutex);
    EXPECT_TRUE(clock.AwaitFor(&mutex, absl::Condition(&done), kDeadline));
    const bool never = false;
    EXPECT_FALSE(
        clock.AwaitFor(&mutex, absl::Condition(&never), absl::Milliseconds(1)));
  }
  other.join();
}

}  // namespace
}  // namespace oarlock
