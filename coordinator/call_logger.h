// Gives each call to the coordinator the time at which it is done, and writes
// it to the log before it is done.

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

  // Begins a call: writes down what `describe` fills in, and returns the time
  // at which the call is done. That is now or, for a call that is replayed, the
  // time of BeginAgain. Fails as the log does; the call must not be done then.
  absl::StatusOr<absl::Time> Begin(
      absl::FunctionRef<void(v1::CoordinatorCall*)> describe);

  // Until the next EndAgain, calls are replayed: they are done at this time,
  // and they are not written.
  void BeginAgain(absl::Time at) { again_at_ = at; }
  void EndAgain() { again_at_.reset(); }

  // Null: nothing is written down.
  CallLog* log() const { return log_; }
  // Calls from now on are written to `log`, which outlives this. REQUIRES:
  // `log` has the state so far; no log was set before.
  void SetLog(CallLog* log);
  // `status`: the result of the last write of a call or a state. A failure is
  // logged once, and again only after a write has succeeded.
  void RecordWritten(const absl::Status& status);

 private:
  const Clock& clock_;
  CallLog* log_ = nullptr;
  // Time of the calls that are replayed; nothing while calls are new.
  std::optional<absl::Time> again_at_;
  bool failure_logged_ = false;
};

}  // namespace oarlock::coordinator

#endif  // OARLOCK_COORDINATOR_CALL_LOGGER_H_
