// The lines that a worker's log has of its training.

#ifndef OARLOCK_WORKER_STEP_LOG_H_
#define OARLOCK_WORKER_STEP_LOG_H_

#include "worker/pass_context.h"
#include "worker/progress_meter.h"

namespace oarlock {

// Writes one where the configuration wants it after so many steps.
void LogStep(const PassContext& context, const PassTotals& totals);

}  // namespace oarlock

#endif  // OARLOCK_WORKER_STEP_LOG_H_
