#include "fleet/data_parallel/join_workers.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "fleet/data_parallel/collective_group.h"
#include "fleet/data_parallel/server_group.h"
#include "fleet/role/role_process.h"

namespace oarlock {

absl::StatusOr<std::unique_ptr<WorkerGroup>> JoinWorkers(
    const v1::JobConfig& config, const cluster::RoleAssignment& role,
    const DistributedStrategy& strategy) {
  if (role.role == cluster::Role::kServer) {
    return absl::InvalidArgumentError(absl::StrCat(
        "this process is ", cluster::RoleName(role), " (", role.reason,
        "), which trains nothing; run it as a server, or set TRAINING_ROLE to "
        "TRAINER"));
  }
  if (strategy.accumulate_steps == 0) {
    return absl::InvalidArgumentError(
        "the strategy's accumulate_steps is 0; legal is 1 or more");
  }
  BeginRole(role);
  std::unique_ptr<WorkerGroup> group;
  if (role.role == cluster::Role::kWorker) {
    OARLOCK_ASSIGN_OR_RETURN(group, JoinServerGroup(config, role, strategy));
  } else {
    OARLOCK_ASSIGN_OR_RETURN(group,
                             JoinCollectiveGroup(config, role, strategy));
  }
  Log().info("{}", group->Describe());
  return group;
}

}  // namespace oarlock
