#include "collective/ring_connection.h"

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"

namespace oarlock::collective {
namespace {

absl::Status NotOver(absl::Duration timeout) {
  return absl::FailedPreconditionError(absl::StrCat(
      "NCCL: connecting was not over within ", absl::FormatDuration(timeout),
      "; with NCCL_DEBUG=INFO it says what it tries, and NCCL_SOCKET_IFNAME "
      "names the network interface to take"));
}

}  // namespace

absl::Status ConnectRing(const Clock& clock, const ConnectCalls& calls,
                         const GpuRing::GoOn& go_on,
                         const ConnectOptions& options) {
  if (calls.begin == nullptr) {
    Log().warn(
        "NCCL is older than 2.14: while it connects, and in the first sum, "
        "nothing ends the wait for a rank that died or is not reached");
    return calls.connect();
  }
  const absl::Time deadline = clock.Now() + options.timeout;
  OARLOCK_ASSIGN_OR_RETURN(bool is_over, calls.begin());
  while (!is_over) {
    OARLOCK_RETURN_IF_ERROR(go_on());
    if (clock.Now() > deadline) return NotOver(options.timeout);
    clock.Sleep(options.look);
    OARLOCK_ASSIGN_OR_RETURN(is_over, calls.is_over());
  }
  return absl::OkStatus();
}

}  // namespace oarlock::collective
