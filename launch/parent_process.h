// A job that is for another process, and ends with it.

#ifndef OARLOCK_LAUNCH_PARENT_PROCESS_H_
#define OARLOCK_LAUNCH_PARENT_PROCESS_H_

#include <functional>
#include <optional>
#include <string>

#include "launch/launcher.h"

namespace oarlock::launch {

// LauncherOptions::stop_request: all are killed when the process that `pidfd`
// stands for has ended. `what` it is, as part of a sentence. -1: nobody's end
// ends them.
std::function<std::optional<LauncherOptions::StopRequest>()> StopWithParent(
    int pidfd, std::string what);

// Whether the process that a pidfd stands for has ended.
bool HasEnded(int pidfd);

}  // namespace oarlock::launch

#endif  // OARLOCK_LAUNCH_PARENT_PROCESS_H_
