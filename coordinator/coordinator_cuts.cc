// The coordinator's part in checkpoints.

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "coordinator/coordinator.h"
#include "coordinator/ranges/train_phase.h"

namespace oarlock::coordinator {

absl::StatusOr<uint64_t> Coordinator::OpenCut() {
  absl::MutexLock lock(&mutex_);
  std::set<uint32_t> workers;
  for (const WorkerRecord& worker : workers_) {
    if (worker.alive()) workers.insert(worker.state.worker_index());
  }
  if (job_.ending && !workers.empty()) OARLOCK_RETURN_IF_ERROR(CheckGoesOn());
  OARLOCK_RETURN_IF_ERROR(CheckDoesNotRollBack());
  const std::vector<std::string> unfinished =
      ranges_.NamesWithPushCompletions();
  if (workers.empty() && !unfinished.empty() && options_.stay) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the run before has pushed a part of '", unfinished.front(),
        "' to some servers only; a checkpoint is made when the next run has "
        "completed that, or has had the servers go back"));
  }
  OARLOCK_RETURN_IF_ERROR(CheckWorkersAreRecovered());
  OARLOCK_RETURN_IF_ERROR(
      calls_.Begin([](auto* call) { call->set_open_cut(true); }).status());
  // A cut whose end could not be written down may still be open.
  if (cuts_.open()) cuts_.Close();
  checkpoint_due_ = false;
  // An epoch that ends while the cut is made may have pushes after it, so it
  // does not count. If it has none, a job that continues from the cut finds
  // nothing left of the epoch.
  epochs_before_cut_ = TrainedEpochs();
  finished_runs_of_cut_ = job_.over ? FinishedRuns() : finished_runs_;
  return cuts_.Open(std::move(workers));
}

uint64_t Coordinator::open_cut() const {
  absl::MutexLock lock(&mutex_);
  return cuts_.open() ? cuts_.newest() : 0;
}

void Coordinator::SetCutRound(uint64_t round) {
  absl::MutexLock lock(&mutex_);
  // A successor gives the cut up, and needs neither its round nor its end.
  calls_.Begin([&](auto* call) { call->set_set_cut_round(round); })
      .IgnoreError();
  cuts_.SetRound(round);
}

absl::Status Coordinator::AwaitMarks(const Clock& clock,
                                     absl::Duration timeout) {
  absl::MutexLock lock(&mutex_);
  // Workers of a job that has failed end where they are.
  const auto marked = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return cuts_.AllMarked() || !cuts_.ended_why().empty() || job_.failed ||
           shut_down_;
  };
  clock.AwaitFor(&mutex_, absl::Condition(&marked), timeout);
  if (shut_down_) return absl::UnavailableError("the server is going away");
  if (!cuts_.ended_why().empty()) {
    return absl::AbortedError(absl::StrCat(
        cuts_.ended_why(), "; the cut is over without a checkpoint"));
  }
  if (cuts_.AllMarked()) return absl::OkStatus();
  if (job_.failed) {
    return absl::UnavailableError(
        absl::StrCat("the job has failed: ", job_.reason));
  }
  return absl::DeadlineExceededError(
      absl::StrCat(cuts_.WaitedFor(), " of ", workers_.size(),
                   " workers, one of them worker ", cuts_.FirstWaitedFor(),
                   ", did not mark cut ", cuts_.newest(), " within ",
                   absl::FormatDuration(timeout)));
}

absl::Status Coordinator::MarkCut(const v1::MarkCutRequest& request) {
  absl::MutexLock lock(&mutex_);
  OARLOCK_RETURN_IF_ERROR(
      Check(request.worker_index(), request.worker_generation()).status());
  OARLOCK_RETURN_IF_ERROR(
      calls_.Begin([&](auto* call) { *call->mutable_mark_cut() = request; })
          .status());
  OARLOCK_RETURN_IF_ERROR(cuts_.Mark(request));
  for (const v1::TrainedExamples& trained : request.trained()) {
    for (const v1::DataRange& range : trained.ranges()) {
      ranges_.Cover(trained.phase_name(), range);
    }
  }
  return absl::OkStatus();
}

void Coordinator::CloseCut() {
  absl::MutexLock lock(&mutex_);
  calls_.Begin([](auto* call) { call->set_close_cut(true); }).IgnoreError();
  cuts_.Close();
}

void Coordinator::AwaitCheckpointDue(const Clock& clock, absl::Time deadline) {
  absl::MutexLock lock(&mutex_);
  const auto due = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return checkpoint_due_ || checkpoint_woken_;
  };
  clock.AwaitUntil(&mutex_, absl::Condition(&due), deadline);
  checkpoint_woken_ = checkpoint_due_ = false;
}

void Coordinator::WakeCheckpoints() {
  absl::MutexLock lock(&mutex_);
  checkpoint_woken_ = true;
}

void Coordinator::DescribeCut(v1::CheckpointManifest* manifest) const {
  absl::MutexLock lock(&mutex_);
  manifest->set_cut(cuts_.newest());
  manifest->set_logical_time(logical_time_);
  manifest->set_start_time(start_time_);
  manifest->set_next_generation(next_generation_);
  uint32_t trained_epochs = epochs_before_cut_;
  for (const auto& [name, covered] : cuts_.Covered()) {
    v1::PhaseCoverage* coverage = manifest->add_works();
    coverage->set_work(name);
    for (const v1::DataRange& range : covered.ranges()) {
      *coverage->add_covered() = range;
    }
    coverage->set_order(ranges_.Order(name));
    const std::optional<uint32_t> epoch = EpochOfPhaseName(name);
    coverage->set_done(epoch.has_value() &&
                       (*epoch < epochs_before_cut_ ||
                        progress_.IsWhole(name, covered.size())));
    if (coverage->done()) trained_epochs = std::max(trained_epochs, *epoch + 1);
  }
  progress_.Describe(/*with_histograms=*/true, manifest->mutable_phases());
  if (description_.has_value()) {
    *manifest->mutable_description() = *description_;
    features_.Describe(manifest->mutable_description());
  }
  training_.DescribeCut(trained_epochs, manifest);
  manifest->mutable_finished_runs()->Assign(finished_runs_of_cut_.begin(),
                                            finished_runs_of_cut_.end());
}

uint32_t Coordinator::TrainedEpochs() const {
  // A phase is defined when the one before it is over on all workers.
  uint32_t trained = std::max(trained_epochs_, training_.num_trained_files());
  for (const std::string& name : ranges_.names()) {
    trained = std::max(trained, EpochOfPhaseName(name).value_or(0));
  }
  return trained;
}

void Coordinator::SkipCuts(uint64_t largest) {
  absl::MutexLock lock(&mutex_);
  cuts_.Skip(largest);
}

void Coordinator::Restore(const v1::CheckpointManifest& manifest) {
  absl::MutexLock lock(&mutex_);
  cuts_.Restore(manifest);
  logical_time_ = std::max(logical_time_, manifest.logical_time());
  next_generation_ = std::max(next_generation_, manifest.next_generation());
  if (manifest.has_description()) {
    description_ = manifest.description();
    features_.Restore(manifest.description());
  }
  // All incarnations are new. What older ones pushed is in the checkpoint.
  for (uint32_t i = 0; i < workers_.size(); ++i) {
    dead_workers_.SetForgotten(WorkerIndex(i),
                               Generation(next_generation_ - 1));
  }
  for (const v1::PhaseCoverage& coverage : manifest.works()) {
    ranges_.SetOrder(coverage.work(), coverage.order());
    for (const v1::DataRange& range : coverage.covered()) {
      ranges_.Cover(coverage.work(), range);
    }
    const std::optional<uint32_t> epoch = EpochOfPhaseName(coverage.work());
    if (coverage.done() && epoch.has_value()) {
      trained_epochs_ = std::max(trained_epochs_, *epoch + 1);
    }
  }
  training_.Restore(manifest);
  finished_runs_.assign(manifest.finished_runs().begin(),
                        manifest.finished_runs().end());
  // An epoch may have ended just before the cut, its tick after it; and another
  // run may have counted seconds.
  start_time_ = manifest.start_time();
  if (!options_.tick_per_epoch) return;
  start_time_ = std::max(
      start_time_, logical_time_ - std::min(logical_time_, trained_epochs_));
  logical_time_ = std::max(logical_time_, start_time_ + trained_epochs_);
}

void Coordinator::BeginWith(const v1::CheckpointManifest& loaded) {
  absl::MutexLock lock(&mutex_);
  start_time_ = logical_time_ = loaded.logical_time();
  if (!loaded.has_description()) return;
  loaded_ = loaded.description();
  features_.BeginWith(loaded.description());
}

}  // namespace oarlock::coordinator
