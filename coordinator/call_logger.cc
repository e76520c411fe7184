#include "coordinator/call_logger.h"

#include <string>

#include "base/check.h"
#include "base/log.h"
#include "coordinator/recorded_time.h"

namespace oarlock::coordinator {

absl::StatusOr<absl::Time> CallLogger::Begin(
    absl::FunctionRef<void(v1::CoordinatorCall*)> describe) {
  if (again_at_.has_value()) return *again_at_;
  const absl::Time now = clock_.Now();
  if (log_ == nullptr) return now;
  v1::CoordinatorCall call;
  call.set_unix_ns(ToRecorded(now));
  describe(&call);
  const absl::Status written = log_->Append(call);
  RecordWritten(written);
  if (!written.ok()) return written;
  return FromRecorded(call.unix_ns());
}

void CallLogger::SetLog(CallLog* log) {
  OARLOCK_CHECK(log_ == nullptr);
  log_ = log;
}

void CallLogger::RecordWritten(const absl::Status& status) {
  if (!status.ok() && !failure_logged_) {
    Log().error("the coordinator cannot write down what it does: {}",
                std::string(status.message()));
  }
  failure_logged_ = !status.ok();
}

}  // namespace oarlock::coordinator
