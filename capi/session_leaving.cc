// How a worker leaves.

#include "base/status_macros.h"
#include "capi/session.h"

namespace oarlock::capi {
namespace {

// From the opening of a cut until the coordinator knows its round it asks all
// servers, once.
constexpr int kRoundQuestions = 20;
constexpr absl::Duration kRoundPause = absl::Milliseconds(50);

}  // namespace

absl::Status Session::LearnRound() {
  for (int i = 0; i < kRoundQuestions; ++i) {
    OARLOCK_RETURN_IF_ERROR(job_->Report());
    absl::MutexLock lock(&mutex_);
    const auto known = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return !marks_.AwaitsRound();
    };
    if (servers_->clock().AwaitFor(&mutex_, absl::Condition(&known),
                                   kRoundPause)) {
      break;
    }
  }
  return absl::OkStatus();
}

absl::Status Session::TellRest() {
  std::vector<std::string> phases;
  std::optional<StepMarks::Mark> rest;
  {
    absl::MutexLock lock(&mutex_);
    phases = leases_.PhasesWithDone();
    if (job_->takes_cuts()) rest = marks_.TakeRest();
  }
  if (rest.has_value()) {
    OARLOCK_RETURN_IF_ERROR(job_->MarkCut(rest->cut, rest->ToProto()));
  }
  for (const std::string& phase : phases) {
    std::vector<uint64_t> done;
    {
      absl::MutexLock lock(&mutex_);
      done = leases_.TakeDone(phase);
    }
    v1::LeaseRangesRequest request;
    request.set_phase_name(phase);
    request.set_worker_index(worker_index());
    request.set_worker_generation(worker_generation());
    request.mutable_done()->Add(done.begin(), done.end());
    {
      absl::MutexLock lock(&mutex_);
      request.set_request(++last_lease_request_);
    }
    v1::LeaseRangesResponse response;
    OARLOCK_RETURN_IF_ERROR(servers_->CallWithRetries(
        ServerIndex(0), [&](grpc::ClientContext* context) {
          return servers_->coordinator().LeaseRanges(context, request,
                                                     &response);
        }));
  }
  return absl::OkStatus();
}

absl::Status Session::Leave(const Leaving& leaving) {
  OARLOCK_RETURN_IF_ERROR(CheckWorker());
  const absl::Status& outcome = leaving.outcome;
  {
    absl::MutexLock lock(&mutex_);
    leaving_ = true;
    // A push that nobody answers ends when its retries do.
    const auto idle = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return pushes_under_way_ == 0 && !marks_.marking();
    };
    mutex_.Await(absl::Condition(&idle));
  }
  bool in_rounds;
  {
    absl::MutexLock lock(&mutex_);
    in_rounds = in_rounds_;
  }
  if (in_rounds) {
    // Who gives up is withdrawn from them by its end.
    OARLOCK_RETURN_IF_ERROR(outcome.ok() ? job_->LeaveRounds()
                                         : absl::OkStatus());
    absl::MutexLock lock(&mutex_);
    marks_.LeftRounds();
  }
  if (outcome.ok() && job_->takes_cuts()) {
    OARLOCK_RETURN_IF_ERROR(LearnRound());
    MarkIfDue();
    absl::MutexLock lock(&mutex_);
    const auto marked = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return !marks_.marking();
    };
    mutex_.Await(absl::Condition(&marked));
  }
  // LearnRound has reported already.
  if (outcome.ok() && !job_->takes_cuts()) {
    OARLOCK_RETURN_IF_ERROR(job_->Report());
  }
  absl::Status told = outcome.ok() ? TellRest() : absl::OkStatus();
  const absl::Status left = leaving.roll_back
                                ? job_->RollBack(std::string(outcome.message()))
                                : job_->Finish(outcome.ok() ? told : outcome);
  return told.ok() ? left : told;
}

}  // namespace oarlock::capi
