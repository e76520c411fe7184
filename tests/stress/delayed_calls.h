// Functions that are called later, by one thread.

#ifndef OARLOCK_TESTS_STRESS_DELAYED_CALLS_H_
#define OARLOCK_TESTS_STRESS_DELAYED_CALLS_H_

#include <map>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"

namespace oarlock {

// Thread-safe. Functions may add others.
class DelayedCalls {
 public:
  using Function = absl::AnyInvocable<void()>;

  explicit DelayedCalls(const Clock& clock);
  ~DelayedCalls() { Stop(); }

  // Calls it after `delay`: at once, here, if that is 0 or after Stop.
  void After(absl::Duration delay, Function function);
  // Calls all that wait, now.
  void Stop();

 private:
  void Run();

  const Clock& clock_;
  absl::Mutex mutex_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::multimap<absl::Time, Function> waiting_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace oarlock

#endif  // OARLOCK_TESTS_STRESS_DELAYED_CALLS_H_
