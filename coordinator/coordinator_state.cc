// The coordinator's state on disk: what it writes down, and how a successor
// takes over.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "coordinator/coordinator.h"
#include "coordinator/ranges/train_phase.h"
#include "coordinator/recorded_time.h"

namespace oarlock::coordinator {

absl::Status Coordinator::SetLog(CallLog* log) {
  {
    absl::MutexLock lock(&mutex_);
    OARLOCK_RETURN_IF_ERROR(log->AppendState(SaveLocked()));
    calls_.SetLog(log);
  }
  return log->EndState();
}

absl::Status Coordinator::WriteState() {
  absl::MutexLock write(&write_mutex_);
  CallLog* log = nullptr;
  {
    absl::MutexLock lock(&mutex_);
    log = calls_.log();
  }
  if (log == nullptr) return absl::OkStatus();
  absl::Status status = log->BeginState();
  {
    absl::MutexLock lock(&mutex_);
    if (status.ok()) status = log->AppendState(SaveLocked());
    calls_.RecordWritten(status);
  }
  return status.ok() ? log->EndState() : status;
}

v1::CoordinatorState Coordinator::Save() const {
  absl::MutexLock lock(&mutex_);
  return SaveLocked();
}

v1::CoordinatorState Coordinator::SaveLocked() const {
  v1::CoordinatorState state;
  for (const WorkerRecord& worker : workers_) {
    worker.Save(state.add_workers());
  }
  servers_.Save(state.mutable_servers());
  state.set_next_generation(next_generation_);
  state.set_workers_version(workers_version_);
  state.set_first_registration_unix_ns(ToRecorded(first_registration_));
  state.set_last_deadline_check_unix_ns(ToRecorded(last_deadline_check_));
  state.set_logical_time(logical_time_);
  state.set_start_time(start_time_);
  state.set_last_tick_unix_ns(ToRecorded(last_tick_));
  dead_workers_.Save(state.mutable_deaths());
  barriers_.Save(state.mutable_barriers());
  ranges_.Save(state.mutable_ranges());
  cuts_.Save(state.mutable_cuts());
  state.set_trained_epochs(trained_epochs_);
  state.set_epochs_before_cut(epochs_before_cut_);
  progress_.Save(state.mutable_phases());
  training_.Save(state.mutable_training());
  state.set_job_ending(job_.ending);
  state.set_job_over(job_.over);
  state.set_job_failed(job_.failed);
  state.set_job_reason(job_.reason);
  state.set_ending_since_unix_ns(ToRecorded(ending_since_));
  if (description_.has_value()) {
    *state.mutable_description() = *description_;
  }
  features_.Save(state.mutable_features());
  inputs_.Save(state.mutable_inputs());
  settings_.Save(&state);
  state.set_run(run_);
  state.set_run_name(run_name_);
  state.mutable_finished_runs()->Assign(finished_runs_.begin(),
                                        finished_runs_.end());
  state.mutable_finished_runs_of_cut()->Assign(finished_runs_of_cut_.begin(),
                                               finished_runs_of_cut_.end());
  state.set_ends_for_good(ends_for_good_);
  state.set_on_death(on_death_);
  state.set_roll_back(roll_back_);
  return state;
}

absl::Status Coordinator::Load(const v1::CoordinatorState& state) {
  absl::MutexLock lock(&mutex_);
  if (state.servers_size() != static_cast<int>(servers_.size())) {
    return absl::DataLossError(absl::StrCat(
        "the coordinator's log is of a job of ", state.servers_size(),
        " servers; this one has ", servers_.size(),
        "; start all processes of the job again with --resume"));
  }
  workers_.resize(state.workers_size());
  for (size_t i = 0; i < workers_.size(); ++i) {
    workers_[i].Load(state.workers(static_cast<int>(i)));
  }
  servers_.Load(state.servers());
  next_generation_ = state.next_generation();
  workers_version_ = state.workers_version();
  first_registration_ = FromRecorded(state.first_registration_unix_ns());
  last_deadline_check_ = FromRecorded(state.last_deadline_check_unix_ns());
  logical_time_ = state.logical_time();
  start_time_ = state.start_time();
  last_tick_ = FromRecorded(state.last_tick_unix_ns());
  dead_workers_.Load(state.deaths());
  barriers_.Load(state.barriers());
  ranges_.Load(state.ranges());
  cuts_.Load(state.cuts());
  trained_epochs_ = state.trained_epochs();
  epochs_before_cut_ = state.epochs_before_cut();
  progress_.Load(state.phases());
  training_.Load(state.training());
  job_ = {.ending = state.job_ending(),
          .over = state.job_over(),
          .failed = state.job_failed(),
          .reason = state.job_reason()};
  ending_since_ = FromRecorded(state.ending_since_unix_ns());
  description_.reset();
  if (state.has_description()) description_ = state.description();
  features_.Load(state.features());
  inputs_.Load(state.inputs());
  settings_.Load(state);
  // Before there were runs, nobody wrote their number.
  run_ = options_.stay ? state.run() : 1;
  run_name_ = state.run_name();
  finished_runs_.assign(state.finished_runs().begin(),
                        state.finished_runs().end());
  finished_runs_of_cut_.assign(state.finished_runs_of_cut().begin(),
                               state.finished_runs_of_cut().end());
  ends_for_good_ = state.ends_for_good();
  on_death_ = state.on_death();
  roll_back_ = state.roll_back();
  return absl::OkStatus();
}

absl::Status Coordinator::CheckNumWorkers() const {
  absl::MutexLock lock(&mutex_);
  if (options_.stay || workers_.size() == options_.num_workers)
    return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("the coordinator's log is of a job of ", workers_.size(),
                   " workers; this one has ", options_.num_workers,
                   "; start all processes of the job again with --resume"));
}

void Coordinator::Replay(const v1::CoordinatorCall& call) {
  {
    absl::MutexLock lock(&mutex_);
    calls_.BeginAgain(FromRecorded(call.unix_ns()));
  }
  // Whoever called was answered, or asks again.
  switch (call.call_case()) {
    case v1::CoordinatorCall::kRegisterWorker:
      RegisterWorker(call.register_worker()).IgnoreError();
      break;
    case v1::CoordinatorCall::kHeartbeat:
      Heartbeat(call.heartbeat()).IgnoreError();
      break;
    case v1::CoordinatorCall::kFinishWorker:
      FinishWorker(call.finish_worker()).IgnoreError();
      break;
    case v1::CoordinatorCall::kServerHeartbeat:
      ServerHeartbeat(call.server_heartbeat()).IgnoreError();
      break;
    case v1::CoordinatorCall::kDefinePhase:
      DefinePhase(call.define_phase()).IgnoreError();
      break;
    case v1::CoordinatorCall::kLeaseRanges:
      LeaseRanges(call.lease_ranges()).IgnoreError();
      break;
    case v1::CoordinatorCall::kBarrier:
      Barrier(call.barrier(), [](const absl::Status&) {});
      break;
    case v1::CoordinatorCall::kMarkCut:
      MarkCut(call.mark_cut()).IgnoreError();
      break;
    case v1::CoordinatorCall::kOpenCut:
      OpenCut().IgnoreError();
      break;
    case v1::CoordinatorCall::kSetCutRound:
      SetCutRound(call.set_cut_round());
      break;
    case v1::CoordinatorCall::kCloseCut:
      CloseCut();
      break;
    case v1::CoordinatorCall::kEndJob:
      EndJob(call.end_job()).IgnoreError();
      break;
    case v1::CoordinatorCall::kCheckDeadlines:
      CheckDeadlines();
      break;
    case v1::CoordinatorCall::kReportEvaluation:
      ReportEvaluation(call.report_evaluation()).IgnoreError();
      break;
    case v1::CoordinatorCall::kStopTraining:
      StopTraining(call.stop_training()).IgnoreError();
      break;
    case v1::CoordinatorCall::kRecordFile:
      RecordFile(call.record_file()).IgnoreError();
      break;
    case v1::CoordinatorCall::kBeginEpoch:
      BeginEpoch(call.begin_epoch()).IgnoreError();
      break;
    case v1::CoordinatorCall::kDefineFeatures:
      DefineFeatures(call.define_features()).status().IgnoreError();
      break;
    case v1::CoordinatorCall::kDefineInput:
      DefineInput(call.define_input()).IgnoreError();
      break;
    case v1::CoordinatorCall::CALL_NOT_SET:
      break;
  }
  absl::MutexLock lock(&mutex_);
  calls_.EndAgain();
}

void Coordinator::ResumeRun() {
  absl::MutexLock lock(&mutex_);
  const absl::Time now = clock_.Now();
  // Below 0 where the clock was set back meanwhile.
  const absl::Duration gap = now - last_deadline_check_;
  SkipTime(gap);
  last_deadline_check_ = now;
  // Servers ask again.
  checkpoint_due_ = false;
  Log().info(
      "the coordinator was away for {:.1f} s; leases are extended by "
      "that",
      absl::ToDoubleSeconds(gap));
}

void Coordinator::BeginRun() {
  // Nobody waits: who did has died.
  Replies replies;
  absl::MutexLock lock(&mutex_);
  ++workers_version_;
  for (WorkerRecord& worker : workers_) {
    if (!worker.alive()) continue;
    worker.state.set_life(v1::WorkerState::LOST);
    Withdraw(worker, absl::AbortedError("its run is over"), &replies);
  }
  workers_ = NewWorkers(options_.stay ? 0 : options_.num_workers);
  servers_.Forget();
  // A worker begins with the barriers of the epoch that it begins with.
  barriers_ = Barriers();
  trained_epochs_ = TrainedEpochs();
  ranges_.BeginRun([this](const std::string& phase_name)
                       ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
                         return ranges_.EpochOf(phase_name).has_value();
                       });
  progress_ = JobProgress();
  training_.BeginRun();
  job_ = JobState();
  first_registration_ = absl::InfiniteFuture();
  ending_since_ = absl::Time();
  last_deadline_check_ = last_tick_ = clock_.Now();
  checkpoint_due_ = false;
  // Flags may be others.
  settings_.Clear();
}

}  // namespace oarlock::coordinator
