// Keeps what saves a checkpoint from taking the processor from training.

#ifndef OARLOCK_PSERVER_CHECKPOINT_SAVE_THROTTLE_H_
#define OARLOCK_PSERVER_CHECKPOINT_SAVE_THROTTLE_H_

#include <cstdint>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "base/clock.h"

namespace oarlock::pserver {

// Of one thread that saves, and used by it alone.
//
// A thread that had to give its core up to another, while pushes came, has
// to share it: it rests for kRestPerWork times the CPU time that it
// took since the last rest. On cores of its own, or without traffic, it never
// rests, and waiting for the disk is no reason to. A lower priority would do
// the same, but a thread that is preempted while it holds the lock of a
// partition would then hold up pushes until everything else is done.
class SaveThrottle {
 public:
  // Two threads of each of two servers, beside a load that fills two cores,
  // then take eight seconds for a table of 10M rows, and the load is .83 as
  // fast meanwhile (bench/checkpoints.py; without rests one second, .41).
  static constexpr double kRestPerWork = 80;
  // Rests are not taken for less work than this.
  static constexpr absl::Duration kLeastWork = absl::Microseconds(500);

  // Begins in the thread that calls it. `pushes` counts pushes; `clock`, which
  // is monotonic, outlives this.
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
