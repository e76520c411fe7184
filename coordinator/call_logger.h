// When the coordinator does what it is asked, and that it is written down
// before.

#ifndef OARLOCK_COORDINATOR_CALL_LOGGER_H_
#define OARLOCK_COORDINATOR_CALL_LOGGER_H_

#include <optional>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "coordinator/call_log.h"
#include "proto/state/coordinator_state.pb.h"

namespace oarlock::coordinator {

// Without a log nothing is written. Not thread-safe: the coordinator guards
// it.
class CallLogger {
 public:
  // `clock` must outlive this.
  explicit CallLogger(const Clock& clock) : clock_(clock) {}

  // A call is about to be done: writes down what `describe` says of it, and
  // returns when it is done: now, or, when it is done again, as it was said.
  // Fails as the log does; the call is not to be done then.
  absl::StatusOr<absl::Time> Begin(
      absl::FunctionRef<void(v1::CoordinatorCall*)> describe);

  // Calls are done again until the next EndAgain: at this time, and they are
  // not written.
  void BeginAgain(absl::Time at) { again_at_ = at; }
  void EndAgain() { again_at_.reset(); }

  // Null: nothing is written down.
  CallLog* log() const { return log_; }
  // Calls from now on go to `log`, which outlives this. REQUIRES: it has
  // the state so far; there is no log yet.
  void SetLog(CallLog* log);
  // How the log has taken the last call or state: a failure is logged, once
  // until it takes something again.
  void RecordWritten(const absl::Status& status);

 private:
  const Clock& clock_;
  CallLog* log_ = nullptr;
  // Of the call that is done again.
  std::optional<absl::Time> again_at_;
  bool failure_logged_ = false;
};

}  // namespace oarlock::coordinator

#endif  // OARLOCK_COORDINATOR_CALL_LOGGER_H_
