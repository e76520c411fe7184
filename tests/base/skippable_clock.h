// A clock that goes on with another one and that a test may move on at any
// time: for tests of whole roles, where a lease ends because the test says so
// and not because the machine was busy.

#ifndef OARLOCK_TESTS_BASE_SKIPPABLE_CLOCK_H_
#define OARLOCK_TESTS_BASE_SKIPPABLE_CLOCK_H_

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"

namespace oarlock {

// Thread-safe.
class SkippableClock : public Clock {
 public:
  explicit SkippableClock(const Clock& machine = Clock::Monotonic())
      : machine_(machine) {}

  absl::Time Now() const override {
    return machine_.Now() + absl::Nanoseconds(skipped_ns_.load());
  }

  void Sleep(absl::Duration duration) const override {
    const bool never = false;
    absl::Mutex mutex;
    absl::MutexLock lock(&mutex);
    AwaitUntil(&mutex, absl::Condition(&never), Now() + duration);
  }

  bool AwaitUntil(absl::Mutex* mutex, const absl::Condition& condition,
                  absl::Time deadline) const override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    while (true) {
      const absl::Duration left = deadline - Now();
      // Whoever waits sees a skip soon.
      if (machine_.AwaitFor(mutex, condition,
                            std::min(left, absl::Milliseconds(5)))) {
        return true;
      }
      if (Now() >= deadline) return false;
    }
  }

  void Skip(absl::Duration by) { skipped_ns_ += absl::ToInt64Nanoseconds(by); }

 private:
  const Clock& machine_;
  std::atomic<int64_t> skipped_ns_ = 0;
};

}  // namespace oarlock

#endif  // OARLOCK_TESTS_BASE_SKIPPABLE_CLOCK_H_
