#include "fleet/role/role_process.h"

#include <string>

#include "absl/synchronization/mutex.h"
#include "base/log.h"
#include "base/process/crash_handler.h"
#include "base/process/malloc.h"

namespace oarlock {

void BeginRole(const cluster::RoleAssignment& role) {
  InstallCrashHandler();
  KeepFreedMemory();
  // Debian's Abseil looks for lock cycles at run time, also in release builds;
  // tests do that.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  InitLogging(cluster::RoleName(role));
  Log().info("{}", role.reason);
  for (const std::string& warning : role.warnings) Log().warn("{}", warning);
}

}  // namespace oarlock
