// The coordinator's part when a worker is gone: which workers get its examples.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "coordinator/coordinator.h"
#include "coordinator/dead_worker_recovery.h"

namespace oarlock::coordinator {

void Coordinator::Withdraw(const WorkerRecord& worker, const absl::Status& why,
                           Replies* replies) {
  const WorkerIndex index(worker.state.worker_index());
  barriers_.Withdraw(index, why, replies);
  Append(steps_.Remove(index, why), replies);
  const bool finished = worker.state.life() == v1::WorkerState::FINISHED;
  if (finished) {
    progress_.KeepAll(index);
  } else {
    progress_.Withdraw(index);
  }
  // A worker that has finished has acknowledgements for all of its pushes.
  // In a job that stays it may have had steps without examples.
  const bool needs_ledgers =
      !finished && (worker.had_examples || options_.stay);
  if (needs_ledgers && cuts_.open() && !cuts_.AllMarked()) {
    // Its partly applied pushes would be on both sides of the cut.
    cuts_.EndEarly(absl::StrCat("worker ", index.value(), " died before cut ",
                                cuts_.newest(), " was marked by all workers"));
  }
  cuts_.Withdraw(index.value());
  DeadWorkers::Incarnation incarnation;
  incarnation.worker = index;
  incarnation.generation = Generation(worker.state.worker_generation());
  // The responses that report this to servers have the version after the
  // change.
  incarnation.fenced_by = workers_version_;
  incarnation.needs_ledgers = needs_ledgers;
  incarnation.finished = finished;
  incarnation.left = finished || worker.state.life() == v1::WorkerState::FAILED;
  dead_workers_.Add(incarnation);
}

void Coordinator::RecoverWorkers(absl::Time now, Replies* replies) {
  const uint64_t version = servers_.KnownWorkersVersion(workers_version_, now);
  const std::vector<uint64_t> generations = servers_.generations();
  while (std::optional<DeadWorkers::Claimed> claimed =
             dead_workers_.Claim(version, generations)) {
    const DeadWorkers::Incarnation& incarnation = claimed->incarnation;
    if (incarnation.needs_ledgers) {
      const std::string why = WhyNotToComplete(*claimed);
      if (!why.empty()) return RollBack(why, now, replies);
      RecoverWorker(*std::move(claimed));
    } else {
      ranges_.Reclaim(incarnation.worker, incarnation.generation);
    }
  }
  dead_workers_.Forget([this](WorkerIndex worker, Generation generation)
                           ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
                             return ranges_.HasPushCompletionsOf(worker,
                                                                 generation);
                           });
}

void Coordinator::RecoverWorker(DeadWorkers::Claimed claimed) {
  DeadWorker dead;
  dead.worker = claimed.incarnation.worker;
  dead.generation = claimed.incarnation.generation;
  dead.ledgers = std::move(claimed.ledgers);
  for (RangeShare& share : ranges_.Claim(dead.worker, dead.generation)) {
    const std::optional<uint32_t> epoch = ranges_.EpochOf(share.phase_name);
    if (!epoch.has_value()) {
      ranges_.Return(share);
      continue;
    }
    LeasedExamples& leased = dead.leased[*epoch];
    leased.ranges = std::move(share.ranges);
    // A completion with a name stays as it is for the next worker.
    RangeShare named{share.phase_name, {}, {}};
    for (v1::PushCompletion& completion : share.push_completions) {
      const bool has_name = completion.worker().worker_generation() != 0;
      (has_name ? named.push_completions : leased.push_completions)
          .push_back(std::move(completion));
    }
    ranges_.Return(named);
  }
  size_t num_push_completions = 0;
  size_t num_ranges = 0;
  for (auto& [epoch, of_epoch] : RecoverExamples(dead)) {
    const std::string phase_name = ranges_.PhaseOfEpoch(epoch);
    // No cut is opened before the push completions are done. So the examples
    // that they are for may be recorded as trained now.
    for (const v1::DataRange& range : of_epoch.covered)
      ranges_.Cover(phase_name, range);
    cuts_.Cover(phase_name, of_epoch.covered);
    num_push_completions += of_epoch.push_completions.size();
    num_ranges += of_epoch.returned.size();
    if (of_epoch.push_completions.empty() && of_epoch.returned.empty())
      continue;
    RangeShare share;
    share.phase_name = phase_name;
    share.ranges = std::move(of_epoch.returned);
    share.push_completions = std::move(of_epoch.push_completions);
    ranges_.Return(share);
  }
  Log().info(
      "what worker {} generation {} had when it died goes to others: {} ranges "
      "that nobody has seen, {} completions of partly applied pushes",
      dead.worker.value(), dead.generation.value(), num_ranges,
      num_push_completions);
}

absl::Status Coordinator::CheckWorkersAreRecovered() const {
  if (const DeadWorkers::Incarnation* dead = dead_workers_.FirstUnrecovered()) {
    return absl::UnavailableError(
        absl::StrCat("worker ", dead->worker.value(), " generation ",
                     dead->generation.value(),
                     " died and not all servers have told what they applied "
                     "of its pushes; call again"));
  }
  if (const size_t completions = ranges_.num_push_completions();
      completions > 0) {
    return absl::UnavailableError(absl::StrCat(
        completions,
        " completions of partly applied pushes of dead workers are not "
        "done; call again"));
  }
  return absl::OkStatus();
}

}  // namespace oarlock::coordinator
