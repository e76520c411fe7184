// Time comes through constructors, so that tests own it.

#ifndef OARLOCK_BASE_CLOCK_H_
#define OARLOCK_BASE_CLOCK_H_

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace oarlock {

// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual absl::Time Now() const = 0;

  // The machine's clock; the only reader of it in the program.
  static const Clock& Real();
  // Goes on evenly whoever sets the machine's clock: for what lasts so long.
  // Its times are of no calendar, and of this boot.
  static const Clock& Monotonic();
};

// A clock that stands still until it is advanced.
class FakeClock : public Clock {
 public:
  explicit FakeClock(absl::Time start = absl::UnixEpoch()) : now_(start) {}
  absl::Time Now() const override {
    absl::MutexLock lock(&mutex_);
    return now_;
  }
  void Advance(absl::Duration by) {
    absl::MutexLock lock(&mutex_);
    now_ += by;
  }

 private:
  mutable absl::Mutex mutex_;
  absl::Time now_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace oarlock

#endif  // OARLOCK_BASE_CLOCK_H_
