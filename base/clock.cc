#include "base/clock.h"

#include <chrono>

#include "absl/time/clock.h"

namespace oarlock {

const Clock& Clock::Real() {
  class RealClock : public Clock {
   public:
    absl::Time Now() const override { return absl::Now(); }
  };
  static const RealClock* const clock = new RealClock;
  return *clock;
}

const Clock& Clock::Monotonic() {
  class MonotonicClock : public Clock {
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

}  // namespace oarlock
