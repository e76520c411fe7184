// How a rank of GPUs waits until a library has connected it with the others:
// what of it needs no library, no GPU and no real time.

#ifndef OARLOCK_COLLECTIVE_RING_CONNECTION_H_
#define OARLOCK_COLLECTIVE_RING_CONNECTION_H_

#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "collective/gpu_ring.h"

namespace oarlock::collective {

// What a library has for it: NCCL, or a fake in tests.
struct ConnectCalls {
  // Begins without waiting for the other ranks; whether all are connected
  // already. Null where the library has no such call (NCCL before 2.14).
  std::function<absl::StatusOr<bool>()> begin;
  // Whether what `begin` began is over.
  std::function<absl::StatusOr<bool>()> is_over;
  // Instead of both: returns when it is over, whatever happens meanwhile.
  std::function<absl::Status()> connect;
};

struct ConnectOptions {
  absl::Duration timeout = GpuRingOptions().connect_timeout;
  // Between two looks.
  absl::Duration look = absl::Milliseconds(1);
};

// Returns when this rank is connected. Without `calls.begin` nothing else ends
// the wait, and the log says so; with it these do: an error of the library;
// one of `go_on`, which is asked before each look; FailedPrecondition after
// `options.timeout`.
absl::Status ConnectRing(const Clock& clock, const ConnectCalls& calls,
                         const GpuRing::GoOn& go_on,
                         const ConnectOptions& options);

}  // namespace oarlock::collective

#endif  // OARLOCK_COLLECTIVE_RING_CONNECTION_H_
