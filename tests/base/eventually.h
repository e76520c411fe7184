// Waiting for what another process or thread will do.

#ifndef OARLOCK_TESTS_BASE_EVENTUALLY_H_
#define OARLOCK_TESTS_BASE_EVENTUALLY_H_

#include <functional>
#include <thread>

#include "absl/time/time.h"
#include "base/clock.h"

namespace oarlock {

// Whether `condition`, asked again and again, holds within a minute.
inline bool Eventually(const std::function<bool()>& condition) {
  const absl::Time deadline = Clock::Real().Now() + absl::Minutes(1);
  while (!condition()) {
    if (Clock::Real().Now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace oarlock

#endif  // OARLOCK_TESTS_BASE_EVENTUALLY_H_
