// Times as proto/state/coordinator_state.proto has them.

#ifndef OARLOCK_COORDINATOR_RECORDED_TIME_H_
#define OARLOCK_COORDINATOR_RECORDED_TIME_H_

#include <cstdint>
#include <limits>

#include "absl/time/time.h"

namespace oarlock::coordinator {

// Infinite times are the ends of the range.
inline int64_t ToRecorded(absl::Time time) { return absl::ToUnixNanos(time); }

inline absl::Time FromRecorded(int64_t unix_ns) {
  if (unix_ns == std::numeric_limits<int64_t>::max()) {
    return absl::InfiniteFuture();
  }
  if (unix_ns == std::numeric_limits<int64_t>::min()) {
    return absl::InfinitePast();
  }
  return absl::FromUnixNanos(unix_ns);
}

}  // namespace oarlock::coordinator

#endif  // OARLOCK_COORDINATOR_RECORDED_TIME_H_
