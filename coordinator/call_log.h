// The log in which the coordinator writes down each call before it does it.

#ifndef OARLOCK_COORDINATOR_CALL_LOG_H_
#define OARLOCK_COORDINATOR_CALL_LOG_H_

#include "absl/status/status.h"
#include "proto/state/coordinator_state.pb.h"

namespace oarlock::coordinator {

// After an error, what was to be written is not in the log. After
// ResourceExhausted a later write may succeed; any other error is permanent.
class CallLog {
 public:
  virtual ~CallLog() = default;

  // Both are called under the coordinator's lock, in the order in which calls
  // are done. Neither waits for the disk.
  //
  // A call that is done next.
  virtual absl::Status Append(const v1::CoordinatorCall& call) = 0;
  // The state after all calls so far.
  virtual absl::Status AppendState(v1::CoordinatorState state) = 0;

  // Called before and after AppendState, without the lock. Both may wait for
  // the disk.
  //
  // A state follows soon.
  virtual absl::Status BeginState() = 0;
  // Calls before the last state are no longer needed.
  virtual absl::Status EndState() = 0;

  // Whether so much has been appended that a state should be written.
  // Thread-safe.
  virtual bool WantsState() const = 0;
};

}  // namespace oarlock::coordinator

#endif  // OARLOCK_COORDINATOR_CALL_LOG_H_
