// Leases of parts of works.

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "capi/json.h"
#include "capi/session.h"
#include "cluster/wire_version.h"

namespace oarlock::capi {
namespace {

constexpr char kLeaseRanges[] = "/oarlock.v1.CoordinatorService/LeaseRanges";
constexpr char kDefinePhase[] = "/oarlock.v1.CoordinatorService/DefinePhase";
// Others hold the last parts: how soon to ask again.
constexpr absl::Duration kLeasePause = absl::Milliseconds(50);
constexpr uint64_t kDefaultBlock = 4096;
// As the coordinator has it.
constexpr uint64_t kMaxPartsPerWork = 1 << 20;

}  // namespace

// What one call of Lease has become.
struct Session::LeaseCall {
  v1::LeaseConfig config;
  WorkId work;
  std::string phase_name;
  OperationPtr operation;
};

absl::Status Session::Lease(const v1::LeaseConfig& config,
                            OperationPtr operation) {
  OARLOCK_RETURN_IF_ERROR(CheckWorker());
  OARLOCK_RETURN_IF_ERROR(Alive());
  auto call = std::make_shared<LeaseCall>();
  call->config = config;
  if (config.block() == 0) call->config.set_block(kDefaultBlock);
  call->work = {config.name(), config.epoch()};
  call->operation = operation;
  const uint64_t num_blocks =
      (config.total() + call->config.block() - 1) / call->config.block();
  if (config.name().empty() || absl::StrContains(config.name(), '#') ||
      config.total() == 0 || num_blocks > kMaxPartsPerWork) {
    return absl::InvalidArgumentError(absl::StrCat(
        "work '", config.name(), "' of ", config.total(), " examples in ",
        num_blocks, " blocks of ", call->config.block(),
        "; legal are a name without #, at least one example and up to ",
        kMaxPartsPerWork, " blocks"));
  }
  // What it has leased by then is the next caller's.
  operation->SetCancel([operation = operation.get()] {
    operation->Finish(
        absl::CancelledError("the wait for a part was cancelled"));
  });
  bool defined;
  {
    absl::MutexLock lock(&mutex_);
    call->phase_name = leases_.PhaseName(call->work);
    OARLOCK_RETURN_IF_ERROR(CheckGoesOnWith(call->phase_name));
    if (config.begins() && leases_.IsFinished(call->phase_name)) {
      if (!config.again()) {
        return absl::FailedPreconditionError(absl::StrCat(
            "'", NameOf(call->work),
            "' is finished: all of its parts were trained in this run; lease "
            "another epoch or another name, or begin it anew (again)"));
      }
      leases_.BeginAgain(call->work);
      call->phase_name = leases_.PhaseName(call->work);
    }
    if (const auto kept = leases_.TakeKept(call->phase_name)) {
      operation->Finish({}, ToJson(*kept));
      return absl::OkStatus();
    }
    // Another thread has seen its end.
    if (leases_.IsFinished(call->phase_name)) {
      operation->Finish({}, ToJson(v1::LeasedPart()));
      return absl::OkStatus();
    }
    defined = epochs_.contains(call->phase_name);
  }
  if (defined) {
    ContinueLease(call, absl::ZeroDuration());
    return absl::OkStatus();
  }
  v1::DefinePhaseRequest request;
  request.set_phase_name(call->phase_name);
  request.set_num_examples(config.total());
  request.set_pushes(true);
  request.set_data_order(cluster::kNumbersAlone);
  for (uint64_t begin = 0; begin < config.total();
       begin += call->config.block()) {
    v1::DataRange* const range = request.add_ranges();
    range->set_begin(begin);
    range->set_end(std::min(config.total(), begin + call->config.block()));
  }
  control_->Start<v1::DefinePhaseResponse>(
      ServerIndex(0), kDefinePhase, request,
      [this, call](const absl::StatusOr<v1::DefinePhaseResponse>& response) {
        if (!response.ok()) return call->operation->Finish(response.status());
        {
          absl::MutexLock lock(&mutex_);
          epochs_[call->phase_name] = response->epoch();
        }
        ContinueLease(call, absl::ZeroDuration());
      });
  return absl::OkStatus();
}

void Session::ContinueLease(const std::shared_ptr<LeaseCall>& call,
                            absl::Duration delay) {
  v1::LeaseRangesRequest request;
  request.set_phase_name(call->phase_name);
  request.set_worker_index(worker_index());
  request.set_worker_generation(worker_generation());
  request.set_max_ranges(1);
  std::vector<uint64_t> done;
  {
    absl::MutexLock lock(&mutex_);
    // The coordinator remembers so many calls: this one waits for an older one.
    if (!open_lease_requests_.empty() &&
        last_lease_request_ + 1 >=
            *open_lease_requests_.begin() + cluster::kMaxLeaseCallSpan) {
      waiting_leases_.push_back(call);
      return;
    }
    request.set_request(++last_lease_request_);
    open_lease_requests_.insert(last_lease_request_);
    done = leases_.TakeDone(call->phase_name);
  }
  request.mutable_done()->Add(done.begin(), done.end());
  control_->StartAfter<v1::LeaseRangesResponse>(
      delay, ServerIndex(0), kLeaseRanges, request,
      [this, call, done, number = request.request()](
          const absl::StatusOr<v1::LeaseRangesResponse>& response) {
        std::vector<std::shared_ptr<LeaseCall>> waiting;
        {
          absl::MutexLock lock(&mutex_);
          open_lease_requests_.erase(number);
          waiting.swap(waiting_leases_);
        }
        OnLeased(call, done, response);
        for (const std::shared_ptr<LeaseCall>& each : waiting) {
          if (!each->operation->done()) {
            ContinueLease(each, absl::ZeroDuration());
          }
        }
      });
}

void Session::OnLeased(
    const std::shared_ptr<LeaseCall>& call, const std::vector<uint64_t>& done,
    const absl::StatusOr<v1::LeaseRangesResponse>& response) {
  const std::string& phase_name = call->phase_name;
  absl::Status alive = Alive();
  std::optional<v1::LeasedPart> part;
  bool over = false;
  {
    absl::MutexLock lock(&mutex_);
    if (!response.ok()) {
      leases_.ReturnDone(phase_name, done);
    } else {
      part =
          leases_.Add(phase_name, call->work, epochs_[phase_name], *response);
      over = !part.has_value() && response->exhausted();
      if (over && alive.ok()) leases_.SetFinished(phase_name);
      // Nobody waits any more: the next call has it.
      if (part.has_value() && call->operation->done()) {
        leases_.Keep(phase_name, *std::exchange(part, std::nullopt));
        return;
      }
    }
  }
  if (call->operation->done()) return;
  if (!response.ok()) return call->operation->Finish(response.status());
  if (part.has_value()) return call->operation->Finish({}, ToJson(*part));
  // A job that is being ended leases nothing.
  if (!alive.ok()) return call->operation->Finish(std::move(alive));
  if (over) return call->operation->Finish({}, ToJson(v1::LeasedPart()));
  ContinueLease(call, kLeasePause);
}

absl::Status Session::CheckGoesOnWith(const std::string& phase_name) {
  if (unfinished_.erase(phase_name) > 0 || unfinished_.empty()) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "the run before has pushed a part of '", *unfinished_.begin(),
      "' to some servers only; lease that work first, or leave with "
      "OARLOCK_LEAVE_ROLL_BACK and join again"));
}

}  // namespace oarlock::capi
