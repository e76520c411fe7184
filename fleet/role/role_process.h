// What every process of a job does first, whatever its role.

#ifndef OARLOCK_FLEET_ROLE_ROLE_PROCESS_H_
#define OARLOCK_FLEET_ROLE_ROLE_PROCESS_H_

#include "cluster/environment.h"

namespace oarlock {

// Sets up memory, locks, logging and what is told of a crash of this process,
// and says in the log what it is and why. Idempotent.
void BeginRole(const cluster::RoleAssignment& role);

}  // namespace oarlock

#endif  // OARLOCK_FLEET_ROLE_ROLE_PROCESS_H_
