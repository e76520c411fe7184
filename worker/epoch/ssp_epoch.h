// An asynchronous epoch in which no compute thread runs far ahead of the
// slowest.

#ifndef OARLOCK_WORKER_EPOCH_SSP_EPOCH_H_
#define OARLOCK_WORKER_EPOCH_SSP_EPOCH_H_

#include "absl/status/status.h"
#include "worker/epoch/epoch_context.h"

namespace oarlock::worker {

// RunAsyncEpoch, but no step begins that is more than `staleness_bound` ahead
// of the steps that every compute thread of every worker in its epoch has
// finished (step_gate.h). A bound of -1: RunAsyncEpoch.
absl::Status RunSspEpoch(EpochContext context);

}  // namespace oarlock::worker

#endif  // OARLOCK_WORKER_EPOCH_SSP_EPOCH_H_
