// How old the rows were that a gradient was computed from.

#ifndef OARLOCK_WORKER_STEP_STALENESS_H_
#define OARLOCK_WORKER_STEP_STALENESS_H_

#include <algorithm>
#include <cstdint>

#include "client/parameter_client.h"

namespace oarlock::worker {

// Pushes of other steps that were applied to a table between a step's pull and
// its own push: the most over servers. Both arguments have one version per
// server, 0 where the step did not reach it.
inline uint64_t Staleness(const client::TableVersions& pulled,
                          const client::TableVersions& pushed) {
  uint64_t most = 0;
  for (size_t s = 0; s < std::min(pulled.size(), pushed.size()); ++s) {
    // The push itself counts one.
    if (pushed[s] > pulled[s] + 1) {
      most = std::max(most, pushed[s] - pulled[s] - 1);
    }
  }
  return most;
}

}  // namespace oarlock::worker

#endif  // OARLOCK_WORKER_STEP_STALENESS_H_
