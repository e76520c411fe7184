// Waiting for what another process or thread will do.

#ifndef OARLOCK_TESTS_BASE_EVENTUALLY_H_
#define OARLOCK_TESTS_BASE_EVENTUALLY_H_

#include <functional>

#include "absl/time/time.h"
#include "base/clock.h"

namespace oarlock {

// Whether `condition`, asked again and again, holds within a minute.
inline bool Eventually(const std::function<bool()>& condition) {
  const Clock& clock = Clock::Monotonic();
  const absl::Time deadline = clock.Now() + absl::Minutes(1);
  while (!condition()) {
    if (clock.Now() > deadline) return false;
    clock.Sleep(absl::Milliseconds(1));
  }
  return true;
}

}  // namespace oarlock

#endif  // OARLOCK_TESTS_BASE_EVENTUALLY_H_
