// Keeps threads that save a checkpoint from taking the processor from training.

#ifndef OARLOCK_PSERVER_CHECKPOINT_SAVE_THROTTLE_H_
#define OARLOCK_PSERVER_CHECKPOINT_SAVE_THROTTLE_H_

#include <cstdint>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "base/clock.h"

namespace oarlock::pserver {

// Belongs to one thread that saves, and is used by it alone.
//
// A thread that had to give its core up to another, while pushes came, has to
// share it. Such a thread rests for kRestPerWork times the CPU time that it
// took since the last rest. On cores of its own, or without traffic, it never
// rests, and waiting for the disk is no reason to rest. A lower priority would
// do the same. But a thread that is preempted while it holds the lock of a
// partition would then hold up pushes until everything else is done.
class SaveThrottle {
 public:
  // Measured with two threads of each of two servers, next to a load that fills
  // two cores (bench/checkpoints.py). With this value they take eight seconds
  // for a table of 10M rows, and the load is .83 as fast meanwhile. Without
  // rests they take one second, and the load is .41 as fast.
  static constexpr double kRestPerWork = 80;
  // The thread does not rest for less work than this.
  static constexpr absl::Duration kLeastWork = absl::Microseconds(500);

  // Begins in the thread that calls it. `pushes` returns a count of pushes;
  // `clock`, which is monotonic, outlives this.
  SaveThrottle(absl::AnyInvocable<uint64_t()> pushes, const Clock& clock);

  // Between two records, while no lock is held.
  void Rest();

 private:
  // Of the thread, and of training.
  struct Usage {
    absl::Duration cpu;
    long preemptions = 0;
    uint64_t pushes = 0;
  };
  Usage Now();

  absl::AnyInvocable<uint64_t()> pushes_;
  const Clock& clock_;
  // After the last rest.
  Usage since_;
};

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_CHECKPOINT_SAVE_THROTTLE_H_
