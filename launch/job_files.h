// The files by which `oarlock ctl` finds a job of this machine, and the job's
// processes their token.

#ifndef OARLOCK_LAUNCH_JOB_FILES_H_
#define OARLOCK_LAUNCH_JOB_FILES_H_

#include <string>

#include "absl/status/statusor.h"
#include "launch/launch_plan.h"

namespace oarlock::launch {

// The variable that names a process's file of the token.
inline constexpr char kTokenFileVariable[] = "OARLOCK_TOKEN_FILE";

// Writes job.json into the log folder of a job whose servers and workers are
// all of this node, with `token_file`, which a user gave; without one, and with
// all servers on loopback, also a random token. The path of that one, else "".
absl::StatusOr<std::string> WriteJobFiles(const LaunchPlan& plan,
                                          const std::string& token_file);
void RemoveJobFiles(const LaunchPlan& plan);

}  // namespace oarlock::launch

#endif  // OARLOCK_LAUNCH_JOB_FILES_H_
