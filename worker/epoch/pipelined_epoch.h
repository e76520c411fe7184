// A phase in which every compute thread goes at its own pace: asynchronous
// training, and evaluation.
//
// Each compute thread has a reader thread before it, which reads batches and
// asks for their rows ahead of time (batch_feeder.h). The compute thread
// computes and sends gradients. While a batch computes, the next one's rows and
// the last one's gradients are on their way. What bounds staleness: the buffers
// of a compute thread (look-ahead), and the worker's permits for pushes that
// are not answered yet.

#ifndef OARLOCK_WORKER_EPOCH_PIPELINED_EPOCH_H_
#define OARLOCK_WORKER_EPOCH_PIPELINED_EPOCH_H_

#include "absl/status/status.h"
#include "worker/epoch/epoch_context.h"

namespace oarlock::worker {

// Trains on all examples of context.ranges. Dense gradients of
// `dense_interval_steps` steps of a compute thread are summed and sent with one
// push. Returns when every push is answered; the first failure of any compute
// thread ends all of them.
absl::Status RunAsyncEpoch(const EpochContext& context);

// Predicts all examples; changes nothing.
absl::Status RunEvaluation(const EpochContext& context);

}  // namespace oarlock::worker

#endif  // OARLOCK_WORKER_EPOCH_PIPELINED_EPOCH_H_
