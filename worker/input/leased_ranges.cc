#include "worker/input/leased_ranges.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status_macros.h"

namespace oarlock::worker {
namespace {

// Between two looks for the ranges of a worker that was lost: the longer
// nothing has come, the longer.
constexpr absl::Duration kShortestPoll = absl::Milliseconds(1);
constexpr absl::Duration kLongestPoll = absl::Milliseconds(50);

bool IsEmpty(const client::Leases& leases) {
  return leases.items.empty() && leases.push_completions.empty();
}

}  // namespace

absl::StatusOr<std::optional<data::DataRange>> LeasedRanges::Next() {
  // A push completion is told as done at once, other than a range: no
  // checkpoint is made before.
  std::vector<uint64_t> completed;
  for (;;) {
    OARLOCK_ASSIGN_OR_RETURN(const client::Leases leases, Lease(completed));
    completed.clear();
    if (IsEmpty(leases)) return std::nullopt;
    if (!leases.items.empty()) return leases.items[0];
    const client::PushCompletion& completion = leases.push_completions[0];
    if (run_completion_ == nullptr) {
      return absl::InternalError(
          absl::StrCat("the coordinator wants pushes of ", phase_name_,
                       " to be completed, a phase that makes none"));
    }
    OARLOCK_RETURN_IF_ERROR(run_completion_(completion));
    completed.push_back(completion.lease);
  }
}

void LeasedRanges::Done(const data::DataRange& item) {
  absl::MutexLock lock(&mutex_);
  done_.push_back(item.lease);
}

absl::Status LeasedRanges::ReportDone() {
  std::vector<uint64_t> done;
  {
    absl::MutexLock lock(&mutex_);
    done.swap(done_);
  }
  if (done.empty()) return absl::OkStatus();
  OARLOCK_RETURN_IF_ERROR(job_->Report());
  return job_->LeaseRanges(phase_name_, /*max_items=*/0, done).status();
}

absl::StatusOr<client::Leases> LeasedRanges::Lease(
    const std::vector<uint64_t>& done) {
  {
    absl::MutexLock lock(&mutex_);
    if (ahead_.has_value()) return *std::exchange(ahead_, std::nullopt);
  }
  return job_->LeaseRanges(phase_name_, /*max_items=*/1, done);
}

absl::StatusOr<bool> LeasedRanges::AwaitMore() {
  for (absl::Duration wait = kShortestPoll;;
       wait = std::min(2 * wait, kLongestPoll)) {
    OARLOCK_RETURN_IF_ERROR(job_->Alive());
    OARLOCK_ASSIGN_OR_RETURN(client::Leases leases, Lease({}));
    if (!IsEmpty(leases)) {
      absl::MutexLock lock(&mutex_);
      ahead_ = std::move(leases);
      return true;
    }
    if (leases.exhausted) return false;
    clock_.Sleep(wait);
  }
}

}  // namespace oarlock::worker
