// What the coordinator does when time goes by.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "coordinator/coordinator.h"
#include "coordinator/ranges/train_phase.h"

namespace oarlock::coordinator {

void Coordinator::CheckDeadlines() {
  Replies replies;
  bool state_due = false;
  {
    absl::MutexLock lock(&mutex_);
    const absl::StatusOr<absl::Time> begun =
        calls_.Begin([](auto* call) { call->set_check_deadlines(true); });
    // Time stands still until it can be written down.
    if (!begun.ok()) return;
    const absl::Time now = *begun;
    const absl::Duration gap = now - last_deadline_check_;
    last_deadline_check_ = now;
    if (gap > options_.lease / 2) {
      // This process stood still; workers could not reach it meanwhile.
      Log().warn(
          "the coordinator stood still for {:.1f} s; leases are "
          "extended by that",
          absl::ToDoubleSeconds(gap));
      SkipTime(gap);
    } else if (gap < absl::ZeroDuration()) {
      Log().warn(
          "the clock of the coordinator's machine was set back by {:.1f} s; "
          "leases and logical time go on from there",
          -absl::ToDoubleSeconds(gap));
      SkipTime(gap);
      // Who was heard between the step and this look has moved, too.
      for (WorkerRecord& worker : workers_) {
        if (!worker.alive()) continue;
        worker.lease_end = std::max(worker.lease_end, now + options_.lease);
      }
    }
    for (; now - last_tick_ >= options_.tick; last_tick_ += options_.tick) {
      if (!options_.tick_per_epoch) ++logical_time_;
    }
    for (WorkerRecord& worker : workers_) {
      if (!worker.alive() || now <= worker.lease_end) continue;
      worker.state.set_life(v1::WorkerState::LOST);
      worker.state.set_reason(absl::StrCat(
          "silent for more than ", absl::FormatDuration(options_.lease)));
      worker.lost_at = now;
      ++workers_version_;
      Log().warn("{} was silent for more than {}: taken for dead",
                 worker.Name(), absl::FormatDuration(options_.lease));
      Withdraw(
          worker,
          absl::AbortedError(absl::StrCat(
              worker.Name(),
              " was taken for dead when its lease ran out; register anew")),
          &replies);
    }
    FailIfTooLate(now, &replies);
    FailIfDeadlocked(now, &replies);
    Reconcile(now, &replies);
    barriers_.Expire(now, &replies);
    Append(steps_.Expire(now), &replies);
    state_due = calls_.log() != nullptr && calls_.log()->WantsState();
  }
  Run(std::move(replies));
  // A failure is logged. The state is tried again when more has been written.
  if (state_due) WriteState().IgnoreError();
}

bool Coordinator::EvictedAfter(absl::string_view barrier) {
  if (!options_.tick_per_epoch) return true;
  const std::optional<uint32_t> epoch = EpochOfTrainedBarrier(barrier);
  if (!epoch.has_value()) return true;
  logical_time_ = std::max(logical_time_, start_time_ + *epoch + 1);
  return servers_.EvictedTime() >= logical_time_;
}

void Coordinator::FailIfTooLate(absl::Time now, Replies* replies) {
  for (const WorkerRecord& worker : workers_) {
    if (!worker.registered()) {
      if (now - first_registration_ <= options_.start_timeout) continue;
      End(/*failed=*/true,
          absl::StrCat("worker ", worker.state.worker_index(), " of ",
                       workers_.size(), " did not register within ",
                       absl::FormatDuration(options_.start_timeout),
                       " of the first one; start all workers"),
          now, replies);
    } else if (!options_.stay && worker.state.life() == v1::WorkerState::LOST &&
               now - worker.lost_at > options_.restart_grace) {
      End(/*failed=*/true,
          absl::StrCat(worker.Name(), " was ", worker.state.reason(),
                       " and was not restarted within ",
                       absl::FormatDuration(options_.restart_grace)),
          now, replies);
    }
  }
}

void Coordinator::FailIfDeadlocked(absl::Time now, Replies* replies) {
  if (job_.ending) return;
  const std::string places = barriers_.Deadlock(WaitedFor());
  if (places.empty()) return;
  End(/*failed=*/true,
      absl::StrCat("the workers wait for each other: ", places,
                   "; start all workers of a job with the same program and "
                   "flags"),
      now, replies);
}

void Coordinator::SkipTime(absl::Duration gap) {
  for (WorkerRecord& worker : workers_) {
    worker.lease_end += gap;
    worker.lost_at += gap;
  }
  servers_.Extend(gap);
  last_tick_ += gap;
  first_registration_ += gap;
  ending_since_ += gap;
}

}  // namespace oarlock::coordinator
