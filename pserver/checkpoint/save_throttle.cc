#include "pserver/checkpoint/save_throttle.h"

#include <sys/resource.h>

#include <utility>

namespace oarlock::pserver {

SaveThrottle::SaveThrottle(absl::AnyInvocable<uint64_t()> pushes,
                           const Clock& clock)
    : pushes_(std::move(pushes)), clock_(clock), since_(Now()) {}

SaveThrottle::Usage SaveThrottle::Now() {
  rusage usage;
  getrusage(RUSAGE_THREAD, &usage);
  return {absl::DurationFromTimeval(usage.ru_utime) +
              absl::DurationFromTimeval(usage.ru_stime),
          usage.ru_nivcsw, pushes_()};
}

void SaveThrottle::Rest() {
  const Usage now = Now();
  const absl::Duration work = now.cpu - since_.cpu;
  if (work < kLeastWork) return;
  if (now.preemptions > since_.preemptions && now.pushes > since_.pushes) {
    clock_.Sleep(work * kRestPerWork);
  }
  since_ = Now();
}

}  // namespace oarlock::pserver
