#include "base/clock.h"

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

}  // namespace oarlock
