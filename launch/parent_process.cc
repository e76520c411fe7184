#include "launch/parent_process.h"

#include <poll.h>

#include <utility>

namespace oarlock::launch {

bool HasEnded(int pidfd) {
  pollfd wait = {.fd = pidfd, .events = POLLIN, .revents = 0};
  return poll(&wait, 1, 0) > 0;
}

std::function<std::optional<LauncherOptions::StopRequest>()> StopWithParent(
    int pidfd, std::string what) {
  return [pidfd, what = std::move(
                     what)]() -> std::optional<LauncherOptions::StopRequest> {
    if (pidfd < 0 || !HasEnded(pidfd)) return std::nullopt;
    return LauncherOptions::StopRequest{.reason = what + " has ended",
                                        .kill = true};
  };
}

}  // namespace oarlock::launch
