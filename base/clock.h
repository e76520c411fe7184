// Time comes through constructors, so that tests own it: what tells the time,
// sleeps or waits with a time limit does so by a Clock that it was given.
// Clock::Real() and Clock::Monotonic() are named by main functions and by the
// options of what they construct (docs/design/0024-time.md).

#ifndef OARLOCK_BASE_CLOCK_H_
#define OARLOCK_BASE_CLOCK_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace oarlock {

// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual absl::Time Now() const = 0;
  // Returns when so long has gone by on this clock; at once if it is not above
  // 0.
  virtual void Sleep(absl::Duration duration) const = 0;
  // Lets go of `mutex` until `condition` holds or the clock shows `deadline`,
  // and tells whether the condition holds.
  virtual bool AwaitUntil(absl::Mutex* mutex, const absl::Condition& condition,
                          absl::Time deadline) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) = 0;
  // The same for at most so long.
  bool AwaitFor(absl::Mutex* mutex, const absl::Condition& condition,
                absl::Duration timeout) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    return AwaitUntil(mutex, condition, Now() + timeout);
  }

  // The machine's clock: for what people and other machines are told.
  static const Clock& Real();
  // Is monotonic whoever sets the machine's clock: for what lasts so long. Its
  // times are no dates, and of this boot.
  static const Clock& Monotonic();
};

// The clocks that a role lives by, for its options. Who must tell both apart
// takes this; who needs one takes a const Clock&.
struct Clocks {
  // What people and other machines are told.
  const Clock* wall = &Clock::Real();
  // What lasts so long, and what is waited for.
  const Clock* monotonic = &Clock::Monotonic();
};

// Now, and so long from now, as gRPC wants its deadlines: it knows the
// machine's clock alone. Calls to other processes take real time in tests, too.
std::chrono::system_clock::time_point GrpcDeadline(absl::Duration timeout);

// A clock that stands still until it is advanced. Threads that wait by it are
// woken by Advance and by what fulfils their conditions; no wake-up is lost,
// however the two meet.
class FakeClock : public Clock {
 public:
  explicit FakeClock(absl::Time start = absl::UnixEpoch()) : start_(start) {}

  absl::Time Now() const override {
    return start_ + absl::Nanoseconds(elapsed_ns_.load());
  }
  void Sleep(absl::Duration duration) const override;
  bool AwaitUntil(absl::Mutex* mutex, const absl::Condition& condition,
                  absl::Time deadline) const override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

  // Wakes those whose time has come. REQUIRES: this thread holds none of the
  // mutexes that others wait with.
  void Advance(absl::Duration by) { GoOn(by); }

  // Whether so many threads are waiting for a time that has not come yet, at
  // the latest after a minute of the machine's time. A thread that was just
  // woken by Advance does not count, so a test may advance, ask and advance.
  bool AwaitWaiters(size_t count) const;

 protected:
  void GoOn(absl::Duration by) const;

 private:
  struct Waiter {
    absl::Mutex* mutex;
    absl::Time deadline;
  };

  // Has the waiter look again, unless it has left. False: its mutex is taken.
  bool TryToWake(uint64_t waiter) const;

  const absl::Time start_;
  // An atomic, since conditions read it under any mutex.
  mutable std::atomic<int64_t> elapsed_ns_ = 0;

  // A waiter takes it while it holds its own mutex; so who holds it only tries
  // to lock theirs.
  mutable absl::Mutex mutex_;
  mutable uint64_t last_waiter_ ABSL_GUARDED_BY(mutex_) = 0;
  mutable std::map<uint64_t, Waiter> waiters_ ABSL_GUARDED_BY(mutex_);
};

// A fake clock that a sleep advances: for tests of what sleeps and tries again
// in one thread.
class SkippingClock : public FakeClock {
 public:
  using FakeClock::FakeClock;
  void Sleep(absl::Duration duration) const override { GoOn(duration); }
};

}  // namespace oarlock

#endif  // OARLOCK_BASE_CLOCK_H_
