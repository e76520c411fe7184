// A whole job on this machine: starts its processes and shows how it goes.

#ifndef OARLOCK_CLI_TRAIN_LOCAL_JOB_H_
#define OARLOCK_CLI_TRAIN_LOCAL_JOB_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "proto/config/job_config.pb.h"
#include "proto/config/train_config.pb.h"

namespace oarlock::cli {

// Runs `argv` as the servers and workers that `train` asks for, with a live
// line on a terminal and a table at the end. `server_endpoints`: of servers
// that are there already, where none are to be started. Returns the exit code.
absl::StatusOr<int> RunLocalJob(
    const v1::TrainConfig& train, const v1::JobConfig& config,
    const std::vector<std::string>& server_endpoints,
    const std::vector<std::string>& argv, const Clocks& clocks);

}  // namespace oarlock::cli

#endif  // OARLOCK_CLI_TRAIN_LOCAL_JOB_H_
