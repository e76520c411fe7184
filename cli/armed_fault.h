// A fault point that the environment arms, for tests that kill.

#ifndef OARLOCK_CLI_ARMED_FAULT_H_
#define OARLOCK_CLI_ARMED_FAULT_H_

#include "absl/status/status.h"
#include "base/clock.h"

namespace oarlock::cli {

// Arms the fault point that OARLOCK_FAULT names, if it names one for this
// start of the process: one that was started again has the variable, too.
// InvalidArgument for a fault that there is none of. `clock` outlives the
// process's threads.
absl::Status ArmFaultOfEnvironment(const Clock& clock);

}  // namespace oarlock::cli

#endif  // OARLOCK_CLI_ARMED_FAULT_H_
