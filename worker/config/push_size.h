// Whether what a worker pushes at a time fits into messages.

#ifndef OARLOCK_WORKER_CONFIG_PUSH_SIZE_H_
#define OARLOCK_WORKER_CONFIG_PUSH_SIZE_H_

#include "absl/status/status.h"
#include "models/model.h"
#include "proto/config/job_config.pb.h"

namespace oarlock::worker {

// InvalidArgument when the rows of a push, each key taken for another one, are
// too many for the partitions: a partition's part of a push is in one message.
absl::Status CheckPushSize(const models::ModelSpec& spec,
                           const v1::JobConfig& config);

}  // namespace oarlock::worker

#endif  // OARLOCK_WORKER_CONFIG_PUSH_SIZE_H_
