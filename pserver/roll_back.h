// How server 0 has all servers go back to the newest cut.

#ifndef OARLOCK_PSERVER_ROLL_BACK_H_
#define OARLOCK_PSERVER_ROLL_BACK_H_

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "pserver/options/server_options.h"

namespace oarlock::pserver {

// Finds the newest checkpoint, has every other server begin its next life with
// it, and fills in options->roll_back for server 0's own. Waits for servers
// that are away; returns early once `stopped` says so. Errors of the disk;
// DataLoss where the checkpoint is damaged. REQUIRES: options->roll_back is
// set, and server 0's life is over, so that CURRENT stays as it is.
absl::Status OrderRollBack(ServerOptions* options,
                           absl::FunctionRef<bool()> stopped);

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_ROLL_BACK_H_
