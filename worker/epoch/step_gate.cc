#include "worker/epoch/step_gate.h"

#include <algorithm>

#include "absl/time/time.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace oarlock::worker {
namespace {

// A coordinator that was started again learns from its members where they are:
// they say so this often even if they got no further.
constexpr absl::Duration kRepeatReport = absl::Milliseconds(200);

}  // namespace

StepGate::StepGate(client::JobClient* job, size_t num_compute_threads,
                   uint64_t bound, const Clock& clock)
    : job_(job),
      bound_(bound),
      clock_(clock),
      compute_threads_(num_compute_threads) {
  OARLOCK_CHECK(num_compute_threads >= 1);
}

StepGate::~StepGate() {
  {
    absl::MutexLock lock(&mutex_);
    closing_ = true;
  }
  if (reporter_.joinable()) reporter_.join();
}

absl::Status StepGate::Join() {
  OARLOCK_ASSIGN_OR_RETURN(const uint64_t start, job_->JoinSteps());
  absl::MutexLock lock(&mutex_);
  for (ComputeThread& thread : compute_threads_) {
    thread.begun = thread.finished = start;
  }
  finished_ = reported_ = slowest_ = start;
  reporter_ = std::thread([this] { ReportLoop(); });
  return absl::OkStatus();
}

absl::Status StepGate::Leave() {
  {
    absl::MutexLock lock(&mutex_);
    closing_ = true;
  }
  // A report that came later would make it a member again.
  reporter_.join();
  return job_->LeaveSteps();
}

absl::StatusOr<uint64_t> StepGate::Begin(size_t thread) {
  for (;;) {
    {
      absl::MutexLock lock(&mutex_);
      ComputeThread& own = compute_threads_[thread];
      const auto may_go_on = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return MayBegin(own) || !asking_ || !Ended().ok();
      };
      mutex_.Await(absl::Condition(&may_go_on));
      OARLOCK_RETURN_IF_ERROR(Ended());
      if (MayBegin(own)) return own.begun++;
      asking_ = true;
    }
    Report(/*waits=*/true);
    absl::MutexLock lock(&mutex_);
    asking_ = false;
  }
}

void StepGate::Finished(size_t thread, uint64_t step) {
  absl::MutexLock lock(&mutex_);
  ComputeThread& own = compute_threads_[thread];
  own.finished_ahead.insert(step);
  while (own.finished_ahead.erase(own.finished) > 0) ++own.finished;
  UpdateFinished();
}

void StepGate::LeaveThread(size_t thread) {
  absl::MutexLock lock(&mutex_);
  compute_threads_[thread].left = true;
  UpdateFinished();
}

void StepGate::Stop() {
  absl::MutexLock lock(&mutex_);
  stopped_ = true;
}

void StepGate::UpdateFinished() {
  const ComputeThread* slowest = nullptr;
  for (const ComputeThread& thread : compute_threads_) {
    if (thread.left) continue;
    if (slowest == nullptr || thread.finished < slowest->finished) {
      slowest = &thread;
    }
  }
  if (slowest != nullptr) finished_ = std::max(finished_, slowest->finished);
}

absl::Status StepGate::Ended() const {
  if (stopped_) return absl::CancelledError("the epoch has ended");
  return status_;
}

void StepGate::Report(bool waits) {
  uint64_t finished;
  uint64_t awaited;
  {
    absl::MutexLock lock(&mutex_);
    finished = finished_;
    // Any change: compute threads may wait for different ones.
    awaited = waits ? slowest_ + 1 : 0;
  }
  const absl::StatusOr<uint64_t> slowest = job_->ReportSteps(finished, awaited);
  absl::MutexLock lock(&mutex_);
  if (!slowest.ok()) {
    if (status_.ok()) status_ = slowest.status();
    return;
  }
  reported_ = std::max(reported_, finished);
  slowest_ = std::max(slowest_, *slowest);
}

void StepGate::ReportLoop() {
  for (;;) {
    {
      absl::MutexLock lock(&mutex_);
      const auto due = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return closing_ || !status_.ok() || finished_ > reported_;
      };
      clock_.AwaitFor(&mutex_, absl::Condition(&due), kRepeatReport);
      if (closing_ || !status_.ok()) return;
    }
    Report(/*waits=*/false);
  }
}

}  // namespace oarlock::worker
