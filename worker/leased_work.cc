#include "worker/leased_work.h"

#include <utility>

#include "base/status_macros.h"

namespace oarlock {

absl::StatusOr<std::optional<WorkItem>> LeasedWork::Next() {
  OARLOCK_ASSIGN_OR_RETURN(const Leases leases,
                           job_->LeaseWork(work_, /*max_items=*/1, {}));
  if (leases.items.empty()) return std::nullopt;
  absl::MutexLock lock(&mutex_);
  gave_any_ = true;
  return leases.items[0];
}

void LeasedWork::Done(const WorkItem& item) {
  absl::MutexLock lock(&mutex_);
  done_.push_back(item.lease);
}

absl::Status LeasedWork::ReportDone() {
  std::vector<uint64_t> done;
  {
    absl::MutexLock lock(&mutex_);
    done.swap(done_);
  }
  if (done.empty()) return absl::OkStatus();
  return job_->LeaseWork(work_, /*max_items=*/0, done).status();
}

bool LeasedWork::gave_any() const {
  absl::MutexLock lock(&mutex_);
  return gave_any_;
}

}  // namespace oarlock
