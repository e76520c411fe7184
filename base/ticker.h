// A thread that does something again and again.

#ifndef OARLOCK_BASE_TICKER_H_
#define OARLOCK_BASE_TICKER_H_

#include <functional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"

namespace oarlock {

class Ticker {
 public:
  // Calls `tick` after each `interval` on `clock`, which outlives this, from a
  // thread of its own.
  Ticker(const Clock& clock, absl::Duration interval,
         std::function<void()> tick)
      : clock_(clock), thread_([this, interval, tick = std::move(tick)] {
          while (!AwaitClosing(interval)) tick();
        }) {}
  // After the call under way.
  ~Ticker() {
    {
      absl::MutexLock lock(&mutex_);
      closing_ = true;
    }
    thread_.join();
  }

  Ticker(const Ticker&) = delete;
  Ticker& operator=(const Ticker&) = delete;

 private:
  bool AwaitClosing(absl::Duration interval) {
    absl::MutexLock lock(&mutex_);
    return clock_.AwaitFor(&mutex_, absl::Condition(&closing_), interval);
  }

  const Clock& clock_;
  absl::Mutex mutex_;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  // Last: it uses what is above.
  std::thread thread_;
};

}  // namespace oarlock

#endif  // OARLOCK_BASE_TICKER_H_
