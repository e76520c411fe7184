// Runs of workers, one after the other, in a job that stays.
//
// A run begins with a registration while the run before is over, and has as
// many workers as that one says. It is over when all of them have registered
// and none is left: each has finished, has given up, or was lost and has no
// successor within `restart_grace`. A registration that does not want to take
// anybody's place (only_if_free), as of a program that was started again by
// hand, begins the next run as soon as nobody is alive; one that names the run
// takes part in that one or in none.
//
// To a run belong its phases, barriers, evaluations, progress, settings and
// step clocks. What of the run before may be partly applied is known when the
// next one begins, and becomes push completions of the phases of those names:
// the first parts that a worker leases there. Cuts, logical time, generations
// and tables are the job's.

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "coordinator/coordinator.h"

namespace oarlock::coordinator {
namespace {

constexpr size_t kMaxRunNameBytes = 256;
constexpr size_t kMaxFinishedRuns = 1024;

}  // namespace

absl::StatusOr<bool> Coordinator::BeginsRun(
    const v1::RegisterWorkerRequest& request) const {
  if (ends_for_good_) return false;
  const uint32_t index = request.worker_index();
  const bool repeated =
      index < workers_.size() && workers_[index].HasHeard(request);
  if (repeated) return false;
  bool any_alive = false;
  bool any_registered = false;
  bool any_finished = false;
  for (const WorkerRecord& worker : workers_) {
    any_alive = any_alive || worker.alive();
    any_registered = any_registered || worker.registered();
    any_finished =
        any_finished || worker.state.life() == v1::WorkerState::FINISHED;
  }
  const std::string& name = request.run_name();
  if (name.size() > kMaxRunNameBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the name of a run has ", name.size(),
                     " bytes; legal are up to ", kMaxRunNameBytes));
  }
  const bool same_name = !name.empty() && name == run_name_;
  const bool is_over = workers_.empty() || job_.over;
  if (!is_over &&
      (any_alive || !any_registered || !request.only_if_free() || same_name)) {
    if (!name.empty() && !same_name) {
      return absl::FailedPreconditionError(
          absl::StrCat("run ", run_,
                       run_name_.empty() ? std::string()
                                         : absl::StrCat(" ('", run_name_, "')"),
                       " is under way, and this worker is of run '", name,
                       "'; wait for its end"));
    }
    if (request.min_workers() != 0 &&
        request.min_workers() != workers_.size()) {
      return absl::FailedPreconditionError(
          absl::StrCat("run ", run_, " has ", workers_.size(),
                       " workers and is not over, "
                       "and this worker is of a run of ",
                       request.min_workers(),
                       "; join it with that number, or wait for its end"));
    }
    const bool cut = request.on_death() == v1::RegisterWorkerRequest::CUT;
    if (request.on_death() != v1::RegisterWorkerRequest::ON_DEATH_UNSPECIFIED &&
        cut != (on_death_ == v1::RegisterWorkerRequest::CUT)) {
      return absl::FailedPreconditionError(
          absl::StrCat("worker ", request.worker_index(), " has on_death ",
                       cut ? "CUT" : "RECOVER", ", and run ", run_, " has ",
                       cut ? "RECOVER" : "CUT",
                       "; start all workers of a run with the same"));
    }
    if (request.run() != 0 && request.run() != run_) {
      return absl::FailedPreconditionError(
          absl::StrCat("run ", run_, " is under way, not run ", request.run(),
                       "; join the present one"));
    }
    return false;
  }
  if (request.run() != 0 && request.run() != run_ + 1) {
    return absl::FailedPreconditionError(absl::StrCat(
        "run ", request.run(), " is over; the next one is run ", run_ + 1));
  }
  if ((same_name && any_finished) ||
      (!name.empty() && std::find(finished_runs_.begin(), finished_runs_.end(),
                                  name) != finished_runs_.end())) {
    return absl::FailedPreconditionError(
        absl::StrCat("run '", name,
                     "' is over: of its workers at least one has finished, and "
                     "none is left; "
                     "give a run that does its work again another name"));
  }
  const uint32_t size = SizeOfRun(request);
  if (size > options_.max_workers || index >= size) {
    return absl::InvalidArgumentError(absl::StrCat(
        "worker ", index, " registers for a run of ", size,
        " workers, numbered from 0; legal are up to ", options_.max_workers));
  }
  if (!dead_workers_.AllClaimedOrFinished()) {
    return absl::UnavailableError(
        "what the workers of the run before have pushed is being found out; "
        "call again");
  }
  if (cuts_.open()) {
    return absl::UnavailableError(
        "a checkpoint of what the run before has trained is being made; call "
        "again");
  }
  return true;
}

std::deque<std::string> Coordinator::FinishedRuns() const {
  std::deque<std::string> names = finished_runs_;
  bool any_finished = false;
  for (const WorkerRecord& worker : workers_) {
    if (worker.alive()) return names;
    any_finished =
        any_finished || worker.state.life() == v1::WorkerState::FINISHED;
  }
  if (!any_finished || run_name_.empty()) return names;
  names.push_back(run_name_);
  if (names.size() > kMaxFinishedRuns) names.pop_front();
  return names;
}

void Coordinator::BeginNextRun(const v1::RegisterWorkerRequest& first) {
  finished_runs_ = FinishedRuns();
  ++run_;
  run_name_ = first.run_name();
  on_death_ = first.on_death();
  workers_ = NewWorkers(SizeOfRun(first));
  job_ = JobState();
  barriers_ = Barriers();
  steps_ = StepClocks();
  ranges_.BeginNextRun();
  cuts_.BeginNextRun();
  progress_ = JobProgress();
  training_ = TrainingState();
  inputs_ = InputFiles();
  settings_.Clear();
  trained_epochs_ = epochs_before_cut_ = 0;
  start_time_ = logical_time_;
  first_registration_ = absl::InfiniteFuture();
  Log().info("run {}{} of {} workers begins", run_,
             run_name_.empty() ? "" : absl::StrCat(" ('", run_name_, "')"),
             workers_.size());
}

void Coordinator::EndRunIfLeft(absl::Time now) {
  bool all_finished = true;
  for (const WorkerRecord& worker : workers_) {
    // A run that failed does not wait for who never came.
    if (!worker.registered() && !job_.ending) return;
    if (worker.alive()) return;
    if (worker.state.life() == v1::WorkerState::LOST &&
        now - worker.lost_at <= options_.restart_grace) {
      return;
    }
    all_finished =
        all_finished && worker.state.life() == v1::WorkerState::FINISHED;
  }
  if (workers_.empty()) return;
  job_.failed = job_.failed || !all_finished;
  job_.ending = job_.over = true;
  Log().info("run {} is over: {}", run_,
             all_finished ? "all of its workers have finished"
                          : "none of its workers is left");
}

}  // namespace oarlock::coordinator
