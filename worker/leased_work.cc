#include "worker/leased_work.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace oarlock {

absl::StatusOr<std::optional<WorkItem>> LeasedWork::Next() {
  // A repair is told as done at once, other than a range: no checkpoint is made
  // before.
  std::vector<uint64_t> repaired;
  for (;;) {
    OARLOCK_ASSIGN_OR_RETURN(const Leases leases,
                             job_->LeaseWork(work_, /*max_items=*/1, repaired));
    repaired.clear();
    if (leases.items.empty() && leases.repairs.empty()) return std::nullopt;
    {
      absl::MutexLock lock(&mutex_);
      gave_any_ = true;
    }
    if (!leases.items.empty()) return leases.items[0];
    const PushRepair& repair = leases.repairs[0];
    if (repair_ == nullptr) {
      return absl::InternalError(absl::StrCat(
          "the coordinator wants pushes of ", work_,
          " to be repaired, a pass that makes none"));
    }
    OARLOCK_RETURN_IF_ERROR(repair_(repair));
    repaired.push_back(repair.lease);
  }
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
