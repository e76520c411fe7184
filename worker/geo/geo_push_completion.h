// Partly applied pushes of a dead geo worker, completed by another one; see
// worker/epoch/push_completion.h.

#ifndef OARLOCK_WORKER_GEO_GEO_PUSH_COMPLETION_H_
#define OARLOCK_WORKER_GEO_GEO_PUSH_COMPLETION_H_

#include "absl/status/status.h"
#include "client/job_client.h"
#include "worker/epoch/epoch_context.h"

namespace oarlock::worker {

// Trains the examples that are missing by itself, beginning with what the
// servers have and with fresh optimizer state, and pushes what that changes;
// returns when all is answered. Thread-safe.
//
// A push completion with a name is one push under that name: its keys are those
// that the dead worker pushed, since they are the keys of its examples, so that
// servers find every group that they have already. Without a name rows and
// dense parameters are pushed each by itself, under this worker's own names.
//
// Nothing is counted as progress, as in RunPushCompletion. Errors of the reader
// and of the parameter client are returned.
absl::Status RunGeoPushCompletion(const EpochContext& context,
                                  const client::PushCompletion& completion);

}  // namespace oarlock::worker

#endif  // OARLOCK_WORKER_GEO_GEO_PUSH_COMPLETION_H_
