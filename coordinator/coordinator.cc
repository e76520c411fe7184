#include "coordinator/coordinator.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "coordinator/truncated.h"

namespace oarlock::coordinator {
Coordinator::Coordinator(const CoordinatorOptions& options, const Clock& clock)
    : options_(options),
      clock_(clock),
      start_(clock.Now()),
      workers_(NewWorkers(options.stay ? 0 : options.num_workers)),
      servers_(options.num_servers, options.lease),
      first_generation_(std::max<int64_t>(1, absl::ToUnixMillis(start_))),
      next_generation_(first_generation_),
      workers_version_(first_generation_),
      last_deadline_check_(start_),
      last_tick_(start_),
      calls_(clock) {
  OARLOCK_CHECK(options.tick > absl::ZeroDuration());
  OARLOCK_CHECK(options.num_workers >= 1 && options.num_servers >= 1);
  // The first registration begins the first run.
  if (options.stay) run_ = options.first_run - 1;
}

Coordinator::~Coordinator() { Shutdown(); }

std::vector<WorkerRecord> Coordinator::NewWorkers(uint32_t count) {
  std::vector<WorkerRecord> workers(count);
  for (uint32_t i = 0; i < count; ++i) workers[i].state.set_worker_index(i);
  return workers;
}

absl::StatusOr<v1::HeartbeatResponse> Coordinator::Heartbeat(
    const v1::HeartbeatRequest& request) {
  absl::MutexLock lock(&mutex_);
  OARLOCK_ASSIGN_OR_RETURN(
      WorkerRecord * worker,
      Check(request.worker_index(), request.worker_generation()));
  OARLOCK_ASSIGN_OR_RETURN(const absl::Time now, calls_.Begin([&](auto* call) {
    *call->mutable_heartbeat() = request;
  }));
  worker->lease_end = now + options_.lease;
  worker->knows_it_is_finished =
      worker->state.life() == v1::WorkerState::FINISHED;
  if (request.report() > worker->last_report) {
    for (const v1::PhaseProgress& progress : request.progress()) {
      OARLOCK_RETURN_IF_ERROR(JobProgress::Validate(progress));
    }
    for (const v1::PhaseProgress& progress : request.progress()) {
      AddProgress(*worker, progress, now);
    }
    worker->last_report = request.report();
  } else if (request.report() == 0 && request.progress_size() > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("worker ", request.worker_index(),
                     " reports progress without a report number; number the "
                     "reports 1, 2, 3 ..."));
  }
  v1::HeartbeatResponse response;
  response.set_cut(cuts_.newest());
  response.set_cut_round(cuts_.round());
  response.set_draining(job_.ending);
  response.set_failed(job_.failed);
  response.set_reason(job_.reason);
  response.set_training_stopped(training_.stopped());
  response.set_term(kTerm);
  return response;
}

void Coordinator::AddProgress(const WorkerRecord& worker,
                              const v1::PhaseProgress& progress,
                              absl::Time now) {
  const std::string phase_name = JobProgress::NameOf(progress);
  if (worker.alive() && !ranges_.EpochOf(phase_name).has_value() &&
      ranges_.HadRanges(phase_name)) {
    progress_.AddOpen(WorkerIndex(worker.state.worker_index()), progress, now);
  } else {
    progress_.Add(progress, now);
  }
}

absl::Status Coordinator::FinishWorker(const v1::FinishWorkerRequest& request) {
  Replies replies;
  {
    absl::MutexLock lock(&mutex_);
    const uint32_t index = request.worker_index();
    if (index < workers_.size() &&
        workers_[index].state.worker_generation() ==
            request.worker_generation() &&
        workers_[index].state.life() == v1::WorkerState::FAILED &&
        !request.succeeded()) {
      return absl::OkStatus();  // Said before.
    }
    OARLOCK_ASSIGN_OR_RETURN(WorkerRecord * worker,
                             Check(index, request.worker_generation()));
    if (!worker->alive()) return absl::OkStatus();
    OARLOCK_ASSIGN_OR_RETURN(const absl::Time now,
                             calls_.Begin([&](auto* call) {
                               *call->mutable_finish_worker() = request;
                             }));
    worker->state.set_life(request.succeeded() ? v1::WorkerState::FINISHED
                                               : v1::WorkerState::FAILED);
    worker->state.set_reason(Truncated(request.reason()));
    ++workers_version_;
    Withdraw(*worker,
             absl::AbortedError(
                 absl::StrCat(worker->Name(), " has said that it is done")),
             &replies);
    if (request.roll_back() && options_.stay && !ends_for_good_) {
      RollBack(absl::StrCat(worker->Name(),
                            " asked for it: ", worker->state.reason()),
               now, &replies);
    } else if (!request.succeeded() && options_.stay) {
      Log().warn("{} has given up: {}; the others go on", worker->Name(),
                 worker->state.reason());
    } else if (!request.succeeded()) {
      End(/*failed=*/true,
          absl::StrCat(worker->Name(),
                       " has given up: ", worker->state.reason()),
          now, &replies);
    }
    Reconcile(now, &replies);
  }
  Run(std::move(replies));
  return absl::OkStatus();
}

absl::StatusOr<v1::ServerHeartbeatResponse> Coordinator::ServerHeartbeat(
    const v1::ServerHeartbeatRequest& request) {
  Replies replies;
  absl::StatusOr<v1::ServerHeartbeatResponse> response;
  {
    absl::MutexLock lock(&mutex_);
    response = ServerHeartbeatLocked(request, &replies);
  }
  Run(std::move(replies));
  return response;
}

absl::StatusOr<v1::ServerHeartbeatResponse> Coordinator::ServerHeartbeatLocked(
    const v1::ServerHeartbeatRequest& request, Replies* replies) {
  // Server 0 waits for the others to go back, and its own loop for that.
  if (request.server_index() != 0) {
    OARLOCK_RETURN_IF_ERROR(CheckDoesNotRollBack());
  }
  OARLOCK_ASSIGN_OR_RETURN(const absl::Time now, calls_.Begin([&](auto* call) {
    *call->mutable_server_heartbeat() = request;
  }));
  OARLOCK_RETURN_IF_ERROR(servers_.RecordHeartbeat(request, now));
  if (request.leaving()) {
    End(/*failed=*/true,
        absl::StrCat("server ", request.server_index(),
                     " was asked to stop before the job was over"),
        now, replies);
  }
  dead_workers_.RecordLedgers(request);
  Reconcile(now, replies);
  v1::ServerHeartbeatResponse response;
  dead_workers_.Describe(ServerIndex(request.server_index()),
                         request.server_generation(), &response);
  for (const WorkerRecord& worker : workers_) {
    if (worker.registered()) *response.add_workers() = worker.state;
  }
  // Those of a former run, who have no successor yet.
  for (const auto& [index, generation] : dead_workers_.Newest()) {
    if (index < workers_.size() && workers_[index].registered()) continue;
    v1::WorkerState* const dead = response.add_workers();
    dead->set_worker_index(index);
    dead->set_worker_generation(generation);
    dead->set_life(v1::WorkerState::LOST);
  }
  response.set_workers_version(workers_version_);
  response.set_logical_time(logical_time_);
  response.set_finished_cut(cuts_.newest() - (cuts_.open() ? 1 : 0));
  response.set_opened_cut(cuts_.newest());
  response.set_granted_generation(request.server_generation());
  response.set_term(kTerm);
  response.set_cuts_wait(!CheckWorkersAreRecovered().ok());
  if (request.checkpoint_due()) checkpoint_due_ = true;
  const JobState job = JobLocked();
  response.set_job_finished(job.over);
  response.set_failed(job.failed);
  response.set_reason(job.reason);
  // That it was told would not do: a response may be lost.
  if (job.over && request.leaving()) {
    servers_.RecordKnowsItIsOver(ServerIndex(request.server_index()));
  }
  return response;
}

absl::StatusOr<v1::DefinePhaseResponse> Coordinator::DefinePhase(
    const v1::DefinePhaseRequest& request) {
  absl::MutexLock lock(&mutex_);
  if (ranges_.IsDefined(request.phase_name())) {
    OARLOCK_RETURN_IF_ERROR(ranges_.Define(request));
  } else {
    OARLOCK_RETURN_IF_ERROR(
        calls_
            .Begin([&](auto* call) { *call->mutable_define_phase() = request; })
            .status());
    OARLOCK_RETURN_IF_ERROR(ranges_.Define(request));
    progress_.SetNumExamples(request.phase_name(), request.num_examples());
  }
  v1::DefinePhaseResponse response;
  response.set_epoch(ranges_.EpochOf(request.phase_name()).value_or(0));
  // Whoever leases is given nothing that is covered.
  if (request.ranges().empty()) {
    for (v1::DataRange& range : ranges_.Covered(request.phase_name())) {
      *response.add_covered() = std::move(range);
    }
  }
  return response;
}

absl::StatusOr<v1::LeaseRangesResponse> Coordinator::LeaseRanges(
    const v1::LeaseRangesRequest& request) {
  absl::MutexLock lock(&mutex_);
  OARLOCK_ASSIGN_OR_RETURN(
      WorkerRecord * worker,
      Check(request.worker_index(), request.worker_generation()));
  if (job_.ending || !worker->alive()) {
    v1::LeaseRangesResponse response;
    response.set_exhausted(true);
    return response;
  }
  OARLOCK_ASSIGN_OR_RETURN(const absl::Time now, calls_.Begin([&](auto* call) {
    *call->mutable_lease_ranges() = request;
  }));
  const bool stopped =
      training_.stopped() && ranges_.EpochOf(request.phase_name()).has_value();
  bool reported_all = false;
  OARLOCK_ASSIGN_OR_RETURN(v1::LeaseRangesResponse response,
                           ranges_.Lease(request, stopped, &reported_all));
  if (reported_all) {
    progress_.Keep(WorkerIndex(request.worker_index()), request.phase_name());
  }
  if (response.leases_size() > 0)
    progress_.RecordStart(request.phase_name(), now);
  if ((response.leases_size() > 0 || response.push_completions_size() > 0) &&
      ranges_.EpochOf(request.phase_name()).has_value()) {
    worker->had_examples = true;
  }
  return response;
}

void Coordinator::Barrier(const v1::BarrierRequest& request,
                          Barriers::Done done) {
  Replies replies;
  absl::Status refused;
  {
    absl::MutexLock lock(&mutex_);
    const WorkerIndex index(request.worker_index());
    const absl::StatusOr<WorkerRecord*> worker =
        Check(index.value(), request.worker_generation());
    refused = shut_down_ ? absl::UnavailableError("the server is going away")
                         : worker.status();
    if (refused.ok()) refused = CheckGoesOn();
    absl::Time now;
    if (refused.ok()) {
      const absl::StatusOr<absl::Time> begun =
          calls_.Begin([&](auto* call) { *call->mutable_barrier() = request; });
      refused = begun.status();
      if (begun.ok()) now = *begun;
    }
    if (refused.ok()) {
      refused = barriers_.Arrive(request.name(), index,
                                 /*for_good=*/request.trained_epochs() > 0);
    }
    if (refused.ok()) {
      (*worker)->trained_epochs =
          std::max((*worker)->trained_epochs, request.trained_epochs());
      const absl::Duration wait =
          std::min(absl::Milliseconds(request.wait_ms()), kMaxBarrierWait);
      barriers_.Wait(request.name(), index, now + wait, std::move(done),
                     &replies);
      Reconcile(now, &replies);
      // A wait of nothing is a question, and is answered now.
      if (wait == absl::ZeroDuration()) barriers_.Expire(now, &replies);
    }
  }
  if (!refused.ok()) {
    done(refused);
    return;
  }
  Run(std::move(replies));
}

absl::StatusOr<WorkerRecord*> Coordinator::Check(uint32_t index,
                                                 uint64_t generation) {
  if (generation != 0 && generation < first_generation_ &&
      !options_.rolled_back.empty()) {
    return absl::AbortedError(options_.rolled_back);
  }
  if (index >= workers_.size() && options_.stay && generation != 0) {
    return absl::AbortedError(absl::StrCat("worker ", index, " generation ",
                                           generation,
                                           " is of a run that is over; join "
                                           "again"));
  }
  if (index >= workers_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("call of worker ", index, ", but the job has ",
                     workers_.size(), " workers, numbered from 0"));
  }
  WorkerRecord& worker = workers_[index];
  const uint64_t newest = worker.state.worker_generation();
  if (generation != newest || generation == 0) {
    return absl::AbortedError(absl::StrCat(
        "worker ", index, " generation ", generation,
        newest == 0 ? " is not registered here"
                    : absl::StrCat(" was fenced by generation ", newest,
                                   " on host ", worker.state.host(),
                                   ", process ", worker.state.pid()),
        "; register anew"));
  }
  if (!roll_back_.empty() && worker.state.reason() == roll_back_) {
    return absl::AbortedError(roll_back_);
  }
  if (worker.state.life() == v1::WorkerState::LOST ||
      worker.state.life() == v1::WorkerState::FAILED) {
    return absl::AbortedError(
        absl::StrCat("worker ", index, " generation ", generation,
                     worker.state.life() == v1::WorkerState::LOST
                         ? " was taken for dead when its lease ran out"
                         : " has given up",
                     "; register anew"));
  }
  return &worker;
}

v1::JobStatusResponse Coordinator::JobStatus(
    const v1::JobStatusRequest& request) const {
  v1::JobStatusResponse response;
  absl::MutexLock lock(&mutex_);
  const absl::Time now = clock_.Now();
  response.set_job_id(options_.job_id);
  for (const WorkerRecord& worker : workers_) {
    if (worker.registered()) *response.add_workers() = worker.state;
  }
  progress_.Describe(request.with_histograms(), response.mutable_phases());
  training_.Describe(&response);
  const JobState job = JobLocked();
  response.set_finished(job.over);
  response.set_failed(job.failed);
  response.set_reason(job.reason);
  response.set_draining(job.ending);
  response.set_run(run_);
  response.set_run_is_over(options_.stay && job_.over);
  response.set_num_servers(servers_.size());
  response.set_num_workers(workers_.size());
  response.set_num_servers_alive(servers_.NumAlive(now));
  response.set_uptime_seconds(absl::ToDoubleSeconds(now - start_));
  if (request.with_description() && description_.has_value()) {
    *response.mutable_description() = *description_;
    features_.Describe(response.mutable_description());
  }
  return response;
}

void Coordinator::Shutdown() {
  Replies replies;
  {
    absl::MutexLock lock(&mutex_);
    shut_down_ = true;
    const absl::Status away =
        absl::UnavailableError("the server is going away");
    barriers_.AnswerAll(away, &replies);
    Append(steps_.AnswerAll(away), &replies);
  }
  Run(std::move(replies));
}

void Coordinator::Run(Replies replies) {
  for (Barriers::Reply& reply : replies) reply.done(reply.status);
}

}  // namespace oarlock::coordinator
