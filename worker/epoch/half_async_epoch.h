// An epoch in which the threads of a worker meet after each step and make one
// push, while workers do not wait for one another.

#ifndef OARLOCK_WORKER_EPOCH_HALF_ASYNC_EPOCH_H_
#define OARLOCK_WORKER_EPOCH_HALF_ASYNC_EPOCH_H_

#include "absl/status/status.h"
#include "worker/epoch/epoch_context.h"

namespace oarlock::worker {

// Trains on all examples of context.ranges. In a step every compute thread that
// has data computes one batch, all on the same dense parameters; their
// gradients are summed in the order of the compute threads and sent as one
// push, which covers the examples of all of them. A compute thread without data
// is no longer waited for. Dense parameters move every `dense_interval_steps`
// such steps (worker/dense/dense_copy.h).
//
// Returns when every push is answered; the first failure ends the epoch. With
// one compute thread every push is that of RunAsyncEpoch, bit for bit, if dense
// parameters move with every step.
absl::Status RunHalfAsyncEpoch(const EpochContext& context);

}  // namespace oarlock::worker

#endif  // OARLOCK_WORKER_EPOCH_HALF_ASYNC_EPOCH_H_
