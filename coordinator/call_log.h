// Where the coordinator writes down what it is about to do.

#ifndef OARLOCK_COORDINATOR_CALL_LOG_H_
#define OARLOCK_COORDINATOR_CALL_LOG_H_

#include "absl/status/status.h"
#include "proto/state/coordinator_state.pb.h"

namespace oarlock::coordinator {

// After an error what was to be written is not in the log:
// ResourceExhausted when it may be written later, anything else for good.
class CallLog {
 public:
  virtual ~CallLog() = default;

  // Both under the coordinator's lock, in the order in which things are done;
  // neither waits for the disk.
  //
  // A call that is done next.
  virtual absl::Status Append(const v1::CoordinatorCall& call) = 0;
  // The state after all calls so far.
  virtual absl::Status AppendState(v1::CoordinatorState state) = 0;

  // Before and after AppendState, without the lock; they may wait for the disk.
  //
  // A state comes soon.
  virtual absl::Status BeginState() = 0;
  // Calls before the last state are no longer needed.
  virtual absl::Status EndState() = 0;

  // So much has been appended that a state is worth while. Thread-safe.
  virtual bool WantsState() const = 0;
};

}  // namespace oarlock::coordinator

#endif  // OARLOCK_COORDINATOR_CALL_LOG_H_
