#include "coordinator/call_recorder.h"

#include <string>

#include "base/check.h"
#include "base/log.h"
#include "coordinator/recorded_time.h"

namespace oarlock::coordinator {

absl::StatusOr<absl::Time> CallRecorder::Begin(
    absl::FunctionRef<void(v1::CoordinatorCall*)> describe) {
  if (again_at_.has_value()) return *again_at_;
  const absl::Time now = clock_.Now();
  if (journal_ == nullptr) return now;
  v1::CoordinatorCall call;
  call.set_unix_ns(ToRecorded(now));
  describe(&call);
  const absl::Status written = journal_->Append(call);
  Note(written);
  if (!written.ok()) return written;
  return FromRecorded(call.unix_ns());
}

void CallRecorder::SetJournal(CoordinatorJournal* journal) {
  OARLOCK_CHECK(journal_ == nullptr);
  journal_ = journal;
}

void CallRecorder::Note(const absl::Status& status) {
  if (!status.ok() && !failure_told_) {
    spdlog::error("the coordinator cannot write down what it does: {}",
                  std::string(status.message()));
  }
  failure_told_ = !status.ok();
}

}  // namespace oarlock::coordinator
