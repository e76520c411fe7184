// What is said of a worker's steps.

#ifndef OARLOCK_WORKER_EPOCH_STEP_LOG_H_
#define OARLOCK_WORKER_EPOCH_STEP_LOG_H_

#include "absl/status/status.h"
#include "worker/epoch/epoch_context.h"
#include "worker/report/progress_meter.h"

namespace oarlock::worker {

// Writes one where the configuration wants it after so many steps.
void LogStep(const EpochContext& context, const PhaseTotals& totals);

// FailedPrecondition when a training step's loss is no finite number: its
// gradients are none either, and what they are added to is lost.
absl::Status CheckLoss(const EpochContext& context, double loss_sum);

}  // namespace oarlock::worker

#endif  // OARLOCK_WORKER_EPOCH_STEP_LOG_H_
