// From what a user calls a program to what exec takes.

#ifndef OARLOCK_LAUNCH_PROGRAM_H_
#define OARLOCK_LAUNCH_PROGRAM_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cluster/environment.h"

namespace oarlock::launch {

// The argument list with a path at its head. A name without a slash is looked
// up in PATH; a Python script (*.py) may also lie in the current folder, and
// runs by python3 when it is not executable. NotFound or PermissionDenied: one
// sentence.
absl::StatusOr<std::vector<std::string>> ResolveProgram(
    const std::vector<std::string>& argv,
    const cluster::EnvironmentMap& environment);

}  // namespace oarlock::launch

#endif  // OARLOCK_LAUNCH_PROGRAM_H_
