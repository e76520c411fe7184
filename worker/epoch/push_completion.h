// Partly applied pushes of a dead worker, completed by another one
// (docs/design/0010-deaths-of-workers-and-coordinator.md).

#ifndef OARLOCK_WORKER_EPOCH_PUSH_COMPLETION_H_
#define OARLOCK_WORKER_EPOCH_PUSH_COMPLETION_H_

#include "absl/status/status.h"
#include "client/job_client.h"
#include "worker/epoch/epoch_context.h"

namespace oarlock::worker {

// Computes the gradients that are missing on rows and dense parameters as they
// are now, with an executor of its own, and pushes them; returns when all is
// acknowledged. Thread-safe. `context` is that of the epoch, async mode.
//
// A push completion with a name is one push under that name: the rows of its
// examples, in one batch of whatever size, which have the keys that the dead
// worker pushed, so that servers find every group that they have already; and
// the dense gradients of its dense examples, summed over batches of any size.
// Without a name rows are pushed batch by batch and dense gradients once, each
// under this worker's own name and for the one or the other alone.
//
// Nothing is counted as progress: the dead worker may have told of the examples
// or not, and nobody knows.
//
// Errors of the reader and of the parameter client are returned.
absl::Status RunPushCompletion(const EpochContext& context,
                               const client::PushCompletion& completion);

}  // namespace oarlock::worker

#endif  // OARLOCK_WORKER_EPOCH_PUSH_COMPLETION_H_
