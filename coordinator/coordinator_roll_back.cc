// Going back to the newest cut, in a job that stays.
//
// What a worker pushed in part when it died is completed under its name by
// whoever leases its examples next. Three things cannot be completed: a push
// without examples, a push whose worker said that its batches cannot be
// repeated (OnDeath CUT), and a part of a round, of which servers have no
// ledger. Also nobody completes what a former run has left when the present one
// does not go on with a work of that name. Then the run is over for all of its
// workers, and all servers go back to the newest cut, or to the beginning
// (pserver/roll_back.h). Until they have, nobody registers.

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "coordinator/coordinator.h"
#include "coordinator/dead_worker_recovery.h"

namespace oarlock::coordinator {

std::string Coordinator::WhyNotToComplete(
    const DeadWorkers::Claimed& dead) const {
  if (!options_.stay || ends_for_good_) return "";
  const std::string worker =
      absl::StrCat("worker ", dead.incarnation.worker.value());
  bool joined_rounds = false;
  for (const v1::WorkerLedger& ledger : dead.ledgers) {
    joined_rounds = joined_rounds || ledger.joined_rounds();
  }
  if (joined_rounds && !dead.incarnation.left) {
    return absl::StrCat(worker,
                        " died in rounds, which may have its part on "
                        "some servers only");
  }
  const PartialPushes partial = FindPartialPushes(dead.ledgers);
  if (partial.without_examples) {
    return absl::StrCat(worker,
                        " died in a push without examples, which some "
                        "servers have and others have not");
  }
  if (partial.with_examples && on_death_ == v1::RegisterWorkerRequest::CUT) {
    return absl::StrCat(worker,
                        " died in a push that cannot be repeated "
                        "(on_death cut)");
  }
  return "";
}

void Coordinator::RollBack(const std::string& reason, absl::Time now,
                           Replies* replies) {
  if (!roll_back_.empty()) return;
  Log().warn("{}: run {} is over, and all servers go back to the newest cut",
             reason, run_);
  roll_back_ =
      absl::StrCat("the servers have gone back to the newest cut, since ",
                   reason, "; join again");
  for (WorkerRecord& worker : workers_) {
    if (!worker.alive()) continue;
    worker.state.set_life(v1::WorkerState::FAILED);
    worker.state.set_reason(roll_back_);
    ++workers_version_;
    Withdraw(worker, absl::AbortedError(roll_back_), replies);
  }
  if (cuts_.open() && !cuts_.AllMarked()) {
    cuts_.EndEarly("the servers go back to the cut before");
  }
  job_ = {.ending = true, .over = true, .failed = true, .reason = roll_back_};
  ending_since_ = now;
}

absl::Status Coordinator::CheckDoesNotRollBack() const {
  if (roll_back_.empty()) return absl::OkStatus();
  return absl::UnavailableError("the servers go back to a cut; call again");
}

bool Coordinator::rolls_back() const {
  absl::MutexLock lock(&mutex_);
  return !roll_back_.empty();
}

std::string Coordinator::roll_back() const {
  absl::MutexLock lock(&mutex_);
  return roll_back_;
}

uint64_t Coordinator::run() const {
  absl::MutexLock lock(&mutex_);
  return run_;
}

std::vector<uint64_t> Coordinator::ServerGenerations() const {
  absl::MutexLock lock(&mutex_);
  return servers_.generations();
}

}  // namespace oarlock::coordinator
