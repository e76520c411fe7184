// How the job ends, and whether other processes have been informed of it.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "coordinator/coordinator.h"
#include "coordinator/truncated.h"

namespace oarlock::coordinator {

absl::Status Coordinator::Drain(const std::string& reason) {
  v1::JobEnd end;
  end.set_reason(absl::StrCat("a drain was asked for: ", Truncated(reason)));
  return EndJob(end);
}

void Coordinator::Stop(const std::string& reason) {
  v1::JobEnd end;
  end.set_failed(true);
  end.set_reason(reason);
  EndJob(end).IgnoreError();
}

void Coordinator::EndWithoutWorkers() {
  // The next check of deadlines sees it.
  absl::MutexLock lock(&mutex_);
  without_workers_ = true;
}

absl::Status Coordinator::EndJob(const v1::JobEnd& end) {
  Replies replies;
  {
    absl::MutexLock lock(&mutex_);
    // The coordinator of the next life hears it.
    if (!end.failed()) OARLOCK_RETURN_IF_ERROR(CheckDoesNotRollBack());
    const absl::StatusOr<absl::Time> begun =
        calls_.Begin([&](auto* call) { *call->mutable_end_job() = end; });
    // A failure takes effect even if it cannot be written down for a successor.
    if (!begun.ok() && !end.failed()) return begun.status();
    const absl::Time now = begun.ok() ? *begun : clock_.Now();
    if (options_.stay && !ends_for_good_) {
      ends_for_good_ = true;
      // A run that is over, or fails, says nothing of the job.
      job_ = JobState();
    }
    End(end.failed(), end.reason(), now, &replies);
    Reconcile(now, &replies);
  }
  Run(std::move(replies));
  return absl::OkStatus();
}

absl::Status Coordinator::CheckGoesOn() const {
  if (!job_.ending) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "job '", options_.job_id, "' ", job_.over ? "is over" : "is being ended",
      job_.reason.empty() ? "" : ": ", job_.reason));
}

void Coordinator::End(bool failed, std::string reason, absl::Time now,
                      Replies* replies) {
  if (job_.ending) return;
  job_.ending = true;
  job_.failed = failed;
  job_.reason = std::move(reason);
  ending_since_ = now;
  if (failed) {
    // The process's last line says why: one failure, one line.
    Log().error("the job has failed, and its workers are told why");
  } else {
    Log().info("the job is being ended: {}", job_.reason);
  }
  barriers_.AnswerAll(CheckGoesOn(), replies);
  Append(steps_.ReleaseAll(), replies);
}

void Coordinator::Reconcile(absl::Time now, Replies* replies) {
  bool all_finished = true;
  bool any_alive = false;
  for (const WorkerRecord& worker : workers_) {
    any_alive = any_alive || worker.alive();
    all_finished = all_finished && worker.registered() &&
                   worker.state.life() == v1::WorkerState::FINISHED;
  }
  if (!job_.ending) {
    barriers_.Release(
        WaitedFor(),
        [&](const std::string& name)
            ABSL_NO_THREAD_SAFETY_ANALYSIS { return EvictedAfter(name); },
        replies);
  }
  RecoverWorkers(now, replies);
  if (job_.over) return;
  if (options_.stay && !ends_for_good_) return EndRunIfLeft(now);
  if (all_finished && !workers_.empty() && !job_.ending) {
    job_.ending = job_.over = true;
    Log().info("the job is done: all {} workers have finished",
               workers_.size());
  } else if (job_.ending && (!any_alive || without_workers_ ||
                             now - ending_since_ > options_.drain_grace)) {
    job_.over = true;
  }
}

std::vector<bool> Coordinator::WaitedFor() const {
  std::vector<bool> waited_for;
  for (const WorkerRecord& worker : workers_) {
    // One that has not registered yet, too. If it registers too late, the job
    // fails.
    waited_for.push_back(worker.alive() || !worker.registered());
  }
  return waited_for;
}

JobState Coordinator::Job() const {
  absl::MutexLock lock(&mutex_);
  return JobLocked();
}

JobState Coordinator::JobLocked() const {
  return options_.stay && !ends_for_good_ ? JobState() : job_;
}

bool Coordinator::OthersKnowItIsOver(ServerIndex self) const {
  absl::MutexLock lock(&mutex_);
  const absl::Time now = clock_.Now();
  const bool workers_know = std::all_of(
      workers_.begin(), workers_.end(), [now](const WorkerRecord& worker) {
        return worker.state.life() != v1::WorkerState::FINISHED ||
               worker.knows_it_is_finished || worker.lease_end <= now;
      });
  return workers_know && servers_.OthersKnowItIsOver(self, now);
}

}  // namespace oarlock::coordinator
