// Flags without effect are refused: whoever sets one expects it to do
// something.

#ifndef OARLOCK_WORKER_CONFIG_FLAG_USE_H_
#define OARLOCK_WORKER_CONFIG_FLAG_USE_H_

#include "absl/status/status.h"
#include "proto/config/job_config.pb.h"

namespace oarlock::worker {

// InvalidArgument, one sentence, when a flag is set that another flag's value
// leaves without effect; docs/configuration.md lists which are looked at. Set
// to its default it is as good as left out: a script may say what is so anyhow,
// and a command line undo what a file says.
absl::Status CheckFlagUse(const v1::JobConfig& config);

}  // namespace oarlock::worker

#endif  // OARLOCK_WORKER_CONFIG_FLAG_USE_H_
