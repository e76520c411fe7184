// Where the time of training steps goes.

#ifndef OARLOCK_FLEET_DATA_PARALLEL_STEP_TIMES_H_
#define OARLOCK_FLEET_DATA_PARALLEL_STEP_TIMES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/time/time.h"

namespace oarlock {

// Of all steps, on one worker. What is in the first and not in the second was
// hidden behind backward.
struct ExchangeTimes {
  // Gradients were under way; waiting for other workers to have theirs is in
  // it.
  absl::Duration communication;
  // The thread that trains waited for that.
  absl::Duration exposed;
};

// Sums over all updates, on one worker, in the thread that trains. Reading
// images and evaluation are in none. Where parameters stay on a GPU, backward,
// its final gradients and updates are only queued, and forward, whose loss
// waits for all of them, has their time.
struct StepTimes {
  uint64_t updates = 0;
  absl::Duration forward;
  // Where gradients of several steps make an update, of all of them.
  absl::Duration backward;
  // From a step's sums to the next step's parameters.
  absl::Duration update;
  ExchangeTimes exchange;

  // In the backward before an update gradients become final from the last
  // towards the first: number `first` and all behind it, so long after its
  // begin.
  struct FinalGradients {
    size_t first = 0;
    // Of so many backwards.
    absl::Duration after_begin;
    uint64_t backwards = 0;
  };
  // In the order in which that happens: each `first` is less than the one
  // before, and the last is 0.
  std::vector<FinalGradients> finals;
};

}  // namespace oarlock

#endif  // OARLOCK_FLEET_DATA_PARALLEL_STEP_TIMES_H_
