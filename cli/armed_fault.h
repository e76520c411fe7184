// A fault point that the environment arms, for tests that kill.

#ifndef OARLOCK_CLI_ARMED_FAULT_H_
#define OARLOCK_CLI_ARMED_FAULT_H_

#include "absl/status/status.h"

namespace oarlock {

// Arms the fault point that OARLOCK_FAULT names, if it names one for this
// start of the process: one that was started again has the variable, too.
// InvalidArgument for a fault that there is none of.
absl::Status ArmFaultOfEnvironment();

}  // namespace oarlock

#endif  // OARLOCK_CLI_ARMED_FAULT_H_
