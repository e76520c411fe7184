#include "base/clock.h"

#include <algorithm>
#include <thread>
#include <vector>

#include "absl/time/clock.h"

namespace oarlock {
namespace {

// The waits of clocks that go on by themselves.
class MachineClock : public Clock {
 public:
  void Sleep(absl::Duration duration) const override {
    absl::SleepFor(duration);
  }
  bool AwaitUntil(absl::Mutex* mutex, const absl::Condition& condition,
                  absl::Time deadline) const override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    return mutex->AwaitWithTimeout(condition, deadline - Now());
  }
};

}  // namespace

const Clock& Clock::Real() {
  class RealClock : public MachineClock {
   public:
    absl::Time Now() const override { return absl::Now(); }
  };
  static const RealClock* const clock = new RealClock;
  return *clock;
}

const Clock& Clock::Monotonic() {
  class MonotonicClock : public MachineClock {
   public:
    absl::Time Now() const override {
      return absl::UnixEpoch() +
             absl::FromChrono(
                 std::chrono::steady_clock::now().time_since_epoch());
    }
  };
  static const MonotonicClock* const clock = new MonotonicClock;
  return *clock;
}

std::chrono::system_clock::time_point GrpcDeadline(absl::Duration timeout) {
  return absl::ToChronoTime(absl::Now() + timeout);
}

void FakeClock::Sleep(absl::Duration duration) const {
  const absl::Time deadline = Now() + duration;
  const bool never = false;
  absl::Mutex mutex;
  absl::MutexLock lock(&mutex);
  AwaitUntil(&mutex, absl::Condition(&never), deadline);
}

bool FakeClock::AwaitUntil(absl::Mutex* mutex, const absl::Condition& condition,
                           absl::Time deadline) const {
  if (condition.Eval()) return true;
  uint64_t waiter;
  {
    // Before the clock is looked at: an advance from now on wakes this thread,
    // and one before is seen.
    absl::MutexLock lock(&mutex_);
    waiter = ++last_waiter_;
    waiters_.emplace(waiter, Waiter{mutex, deadline});
  }
  const auto over = [&condition, deadline, this] {
    return condition.Eval() || Now() >= deadline;
  };
  mutex->Await(absl::Condition(&over));
  {
    absl::MutexLock lock(&mutex_);
    waiters_.erase(waiter);
  }
  return condition.Eval();
}

void FakeClock::GoOn(absl::Duration by) const {
  elapsed_ns_ += absl::ToInt64Nanoseconds(by);
  std::vector<uint64_t> waiters;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& [waiter, unused] : waiters_) waiters.push_back(waiter);
  }
  for (const uint64_t waiter : waiters) {
    while (!TryToWake(waiter)) std::this_thread::yield();
  }
}

bool FakeClock::TryToWake(uint64_t waiter) const {
  // A waiter whose entry is there has not returned yet, so its mutex exists.
  absl::MutexLock lock(&mutex_);
  const auto found = waiters_.find(waiter);
  if (found == waiters_.end()) return true;
  absl::Mutex& mutex = *found->second.mutex;
  if (!mutex.TryLock()) return false;
  // Who unlocks a mutex looks at the conditions of those that wait for it.
  mutex.Unlock();
  return true;
}

bool FakeClock::AwaitWaiters(size_t count) const {
  const auto wait = [this, count]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const absl::Time now = Now();
    const auto waits = [now](const auto& waiter) {
      return waiter.second.deadline > now;
    };
    return static_cast<size_t>(
               std::count_if(waiters_.begin(), waiters_.end(), waits)) >= count;
  };
  absl::MutexLock lock(&mutex_);
  return mutex_.AwaitWithTimeout(absl::Condition(&wait), absl::Minutes(1));
}

}  // namespace oarlock
