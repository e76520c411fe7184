// How workers register: in the present run, or as the first one of the next.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "cluster/wire_version.h"
#include "coordinator/coordinator.h"
#include "coordinator/ranges/train_phase.h"
#include "coordinator/truncated.h"

namespace oarlock::coordinator {
namespace {

// Limits of the job's description.
constexpr int kMaxDescribedFlags = 256;
constexpr size_t kMaxDescriptionBytes = 64 << 10;

absl::Status CheckSize(const v1::JobDescription& description) {
  if (description.flags_size() <= kMaxDescribedFlags &&
      description.ByteSizeLong() <= kMaxDescriptionBytes) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "the job's description has ", description.flags_size(), " flags and ",
      description.ByteSizeLong(), " bytes; legal are up to ",
      kMaxDescribedFlags, " and ", kMaxDescriptionBytes, ": shorten it"));
}

// "--model deepfm".
std::string Given(const v1::JobDescription::Flag& flag) {
  return absl::StrCat("--", flag.name(), " ", flag.value());
}

}  // namespace

absl::StatusOr<v1::RegisterWorkerResponse> Coordinator::RegisterWorker(
    const v1::RegisterWorkerRequest& request) {
  Replies replies;
  v1::RegisterWorkerResponse response;
  {
    absl::MutexLock lock(&mutex_);
    OARLOCK_RETURN_IF_ERROR(CheckDoesNotRollBack());
    const uint32_t index = request.worker_index();
    bool begins_run = false;
    if (options_.stay) {
      OARLOCK_ASSIGN_OR_RETURN(begins_run, BeginsRun(request));
    }
    if (begins_run) {
      OARLOCK_RETURN_IF_ERROR(CheckSize(request.description()));
      OARLOCK_RETURN_IF_ERROR(CheckModel(request));
      OARLOCK_RETURN_IF_ERROR(
          RunSettings().Check(WorkerIndex(index), request.settings()));
      OARLOCK_ASSIGN_OR_RETURN(const absl::Time now,
                               calls_.Begin([&](auto* call) {
                                 *call->mutable_register_worker() = request;
                               }));
      BeginNextRun(request);
      response = Admit(request, now, &replies);
    } else {
      OARLOCK_ASSIGN_OR_RETURN(response, RegisterInRun(request, &replies));
    }
  }
  Run(std::move(replies));
  return response;
}

absl::StatusOr<v1::RegisterWorkerResponse> Coordinator::RegisterInRun(
    const v1::RegisterWorkerRequest& request, Replies* replies) {
  const uint32_t index = request.worker_index();
  if (index >= workers_.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "worker ", index, " registers, but the job has ", workers_.size(),
        " workers, numbered from 0; start the servers with the same number "
        "of workers"));
  }
  OARLOCK_RETURN_IF_ERROR(CheckGoesOn());
  OARLOCK_RETURN_IF_ERROR(CheckSize(request.description()));
  WorkerRecord& worker = workers_[index];
  if (worker.registered() && worker.state.life() == v1::WorkerState::FINISHED) {
    return absl::FailedPreconditionError(absl::StrCat(
        worker.Name(), " has finished its part of the job; start a new job"));
  }
  if (worker.HasHeard(request)) {
    if (worker.alive() &&
        worker.registrations.back() == request.registration_id()) {
      return worker.registered_response;
    }
    return absl::AbortedError(
        absl::StrCat("worker ", index,
                     " repeats a registration that is over; register "
                     "anew"));
  }
  if (request.only_if_free() && worker.alive()) {
    return absl::AlreadyExistsError(
        absl::StrCat(worker.Name(),
                     " is at work; take another index, or take its place by "
                     "a registration without only_if_free (take_over)"));
  }
  const bool alone = std::none_of(
      workers_.begin(), workers_.end(), [&](const WorkerRecord& other) {
        return &other != &worker && other.registered();
      });
  if (alone) settings_.Clear();
  OARLOCK_RETURN_IF_ERROR(
      settings_.Check(WorkerIndex(index), request.settings()));
  OARLOCK_RETURN_IF_ERROR(CheckModel(request));
  OARLOCK_ASSIGN_OR_RETURN(const absl::Time now, calls_.Begin([&](auto* call) {
    *call->mutable_register_worker() = request;
  }));
  if (worker.alive()) {
    Log().warn("{} registers again from host {}, process {}", worker.Name(),
               request.host(), request.pid());
    Withdraw(
        worker,
        absl::AbortedError(absl::StrCat(worker.Name(),
                                        " was fenced by a newer incarnation "
                                        "on host ",
                                        Truncated(request.host()), ", process ",
                                        request.pid(), "; register anew")),
        replies);
  }
  return Admit(request, now, replies);
}

v1::RegisterWorkerResponse Coordinator::Admit(
    const v1::RegisterWorkerRequest& request, absl::Time now,
    Replies* replies) {
  v1::RegisterWorkerResponse response;
  WorkerRecord& worker = workers_[request.worker_index()];
  settings_.Record(WorkerIndex(request.worker_index()), request.settings());
  ++workers_version_;
  first_registration_ = std::min(first_registration_, now);
  worker.state.set_worker_generation(next_generation_++);
  worker.state.set_life(v1::WorkerState::ALIVE);
  worker.state.set_host(Truncated(request.host()));
  worker.state.set_pid(request.pid());
  worker.state.clear_reason();
  worker.lease_end = now + options_.lease;
  worker.last_report = 0;
  worker.had_examples = false;
  response.set_worker_generation(worker.state.worker_generation());
  response.set_lease_ms(absl::ToInt64Milliseconds(options_.lease));
  response.set_cut(cuts_.newest());
  response.set_trained_epochs(trained_epochs_);
  response.set_own_trained_epochs(worker.trained_epochs);
  response.set_run(run_);
  response.set_num_workers(workers_.size());
  for (v1::UnfinishedPhase& work : ranges_.PhasesOfRunBefore()) {
    *response.add_unfinished() = std::move(work);
  }
  response.set_term(kTerm);
  worker.RecordRegistration(request, response);
  ExcuseFromLaterMembers(worker, WorkerIndex(request.worker_index()));
  if (request.has_description()) description_ = request.description();
  Reconcile(now, replies);
  return response;
}

absl::Status Coordinator::CheckModel(
    const v1::RegisterWorkerRequest& request) const {
  const v1::JobDescription* const trained = description_.has_value()
                                                ? &*description_
                                            : loaded_.has_value() ? &*loaded_
                                                                  : nullptr;
  if (trained == nullptr) return absl::OkStatus();
  for (const v1::JobDescription::Flag& own : request.description().flags()) {
    // What differs between two lists of features DefineFeatures says.
    if (!own.defines_model() || own.name() == "features") continue;
    for (const v1::JobDescription::Flag& before : trained->flags()) {
      if (before.name() != own.name() || before.value() == own.value())
        continue;
      const std::string difference = absl::StrCat(
          "worker ", request.worker_index(), " has ", Given(own),
          ", and the parameters with which the job goes on were trained with ",
          Given(before));
      // Who loads parameters may give them another meaning, but not by default.
      if (!description_.has_value() && own.given()) {
        Log().warn("{}", difference);
        continue;
      }
      return absl::FailedPreconditionError(
          absl::StrCat(difference, "; give ", Given(before)));
    }
  }
  return absl::OkStatus();
}

void Coordinator::ExcuseFromLaterMembers(const WorkerRecord& worker,
                                         WorkerIndex index) {
  const uint32_t first = std::max(trained_epochs_, worker.trained_epochs);
  uint32_t epoch = first;
  while (barriers_.HasPassed(TrainPhaseName(epoch + 1))) ++epoch;
  if (epoch == first) return;
  // Beyond a limit of names the others wait, as they would at any barrier.
  barriers_
      .Arrive(absl::StrCat(TrainPhaseName(epoch), cluster::kMembersBarrier),
              index,
              /*for_good=*/false)
      .IgnoreError();
}

}  // namespace oarlock::coordinator
