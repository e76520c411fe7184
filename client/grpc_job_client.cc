#include "client/grpc_job_client.h"

#include <unistd.h>

#include <algorithm>
#include <random>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "client/range_messages.h"
#include "cluster/retry.h"
#include "cluster/wire_version.h"

namespace oarlock::client {
namespace {

// Heartbeats per lease: a few may be lost before the lease is.
constexpr int kHeartbeatsPerLease = 8;
// Progress is reported at least this often, whatever the lease.
constexpr absl::Duration kReportPeriod = absl::Milliseconds(500);
// How long the coordinator holds a barrier call open before "not yet".
constexpr absl::Duration kBarrierWait = absl::Seconds(2);
// How long it holds a call that waits for slower workers.
constexpr uint32_t kStepWaitMs = 1000;

// A worker that gives up, say because the coordinator is gone, does not wait
// for it long. That it has succeeded must be known.
constexpr absl::Duration kGiveUpTimeout = absl::Seconds(2);

// The coordinator hears that it was heard; it does not stay long for that.
constexpr absl::Duration kLastHeartbeatTimeout = absl::Milliseconds(500);
constexpr int kLastHeartbeatAttempts = 3;

// Each is repeated until it is answered; the response may be that it is over.
constexpr int kRegisterAttempts = 5;

// Not 0, and no other process has drawn it.
uint64_t RandomName() {
  std::random_device device;
  return uint64_t{device()} << 32 | device() | 1;
}

std::string HostName() {
  char name[256] = "unknown";
  gethostname(name, sizeof name - 1);
  return name;
}

// The first phase of a run of the engine.
constexpr char kFirstPhase[] = "train/0";

// A phase that the run before has left in part, and that an epoch of the engine
// does not go on with; empty: none.
std::string PhaseOfOtherPrograms(
    const v1::RegisterWorkerResponse& registration) {
  for (const v1::UnfinishedPhase& phase : registration.unfinished()) {
    if (phase.phase_name() != kFirstPhase ||
        phase.data_order() == cluster::kNumbersAlone) {
      return phase.phase_name();
    }
  }
  return "";
}

}  // namespace

absl::StatusOr<std::unique_ptr<GrpcJobClient>> GrpcJobClient::Register(
    const ServerConnections* connections, WorkerIndex worker_index,
    const v1::JobDescription* description, const v1::JobDescription& settings) {
  v1::RegisterWorkerRequest request;
  request.set_worker_index(worker_index.value());
  *request.mutable_settings() = settings.flags();
  if (description != nullptr) *request.mutable_description() = *description;
  return RegisterForEpochs(connections, std::move(request));
}

absl::StatusOr<std::unique_ptr<GrpcJobClient>> GrpcJobClient::RegisterForEpochs(
    const ServerConnections* connections, v1::RegisterWorkerRequest request) {
  for (;;) {
    OARLOCK_ASSIGN_OR_RETURN(std::unique_ptr<GrpcJobClient> client,
                             Register(connections, request));
    const std::string other = PhaseOfOtherPrograms(client->registration());
    if (other.empty()) return client;
    Log().warn(
        "the run before has pushed a part of '{}' to some servers only, and "
        "this one does not go on with it: the servers go back to the newest "
        "checkpoint, or to the beginning",
        other);
    const absl::Status ordered =
        client->RollBack(absl::StrCat("worker ", request.worker_index(),
                                      " does not go on with '", other, "'"));
    // Another worker of this run may have been first.
    if (!absl::IsAborted(ordered)) OARLOCK_RETURN_IF_ERROR(ordered);
  }
}

absl::StatusOr<std::unique_ptr<GrpcJobClient>> GrpcJobClient::Register(
    const ServerConnections* connections, v1::RegisterWorkerRequest request) {
  auto client = absl::WrapUnique(
      new GrpcJobClient(connections, WorkerIndex(request.worker_index())));
  request.set_host(HostName());
  request.set_pid(static_cast<uint32_t>(getpid()));
  request.set_protocol_version(cluster::kProtocolVersion);
  v1::RegisterWorkerResponse response;
  absl::Status registered;
  for (int attempt = 1; attempt <= kRegisterAttempts; ++attempt) {
    request.set_registration_id(RandomName());
    registered = connections->CallWithRetries(
        ServerIndex(0), [&](grpc::ClientContext* context) {
          return client->coordinator().RegisterWorker(context, request,
                                                      &response);
        });
    // The response took longer than a lease: it is over.
    if (!absl::IsAborted(registered)) break;
  }
  OARLOCK_RETURN_IF_ERROR(registered);
  client->registration_ = response;
  client->generation_ = Generation(response.worker_generation());
  client->lease_ = absl::Milliseconds(response.lease_ms());
  client->first_cut_ = response.cut();
  client->trained_epochs_ = response.trained_epochs();
  client->own_trained_epochs_ = response.own_trained_epochs();
  connections->SetReturnListener([c = client.get()](ServerIndex server) {
    return c->RejoinRounds(server);
  });
  {
    absl::MutexLock lock(&client->report_mutex_);
    client->term_ = response.term();
  }
  client->heartbeat_ = std::thread([c = client.get()] {
    c->connections_->RunThread([c] { c->HeartbeatLoop(); });
  });
  return client;
}

GrpcJobClient::~GrpcJobClient() {
  connections_->SetReturnListener(nullptr);
  StopHeartbeat();
}

void GrpcJobClient::StopHeartbeat() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  if (heartbeat_.joinable()) heartbeat_.join();
}

void GrpcJobClient::HeartbeatLoop() {
  const absl::Duration period =
      std::min(lease_ / kHeartbeatsPerLease, kReportPeriod);
  for (;;) {
    {
      absl::MutexLock lock(&mutex_);
      if (connections_->clock().AwaitFor(&mutex_, absl::Condition(&stopping_),
                                         period))
        return;
    }
    const absl::Status status = Report();
    if (!status.ok()) {
      Lost(status);
      return;
    }
  }
}

void GrpcJobClient::Lost(const absl::Status& why) {
  absl::MutexLock lock(&mutex_);
  if (alive_.ok()) alive_ = why;
}

absl::Status GrpcJobClient::Alive() const {
  absl::MutexLock lock(&mutex_);
  return alive_;
}

void GrpcJobClient::SetProgressSource(ProgressSource source) {
  absl::MutexLock lock(&report_mutex_);
  progress_source_ = std::move(source);
}

absl::Status GrpcJobClient::Report() {
  v1::HeartbeatResponse response;
  {
    absl::MutexLock lock(&report_mutex_);
    v1::HeartbeatRequest request;
    request.set_worker_index(worker_index_.value());
    request.set_worker_generation(generation_.value());
    request.set_report(++last_report_);
    request.set_term(term_);
    if (progress_source_) {
      for (v1::PhaseProgress& progress : progress_source_()) {
        *request.add_progress() = std::move(progress);
      }
    }
    OARLOCK_RETURN_IF_ERROR(connections_->CallWithRetries(
        ServerIndex(0), [&](grpc::ClientContext* context) {
          return coordinator().Heartbeat(context, request, &response);
        }));
    term_ = std::max(term_, response.term());
  }
  {
    absl::MutexLock lock(&observer_mutex_);
    if (cut_observer_) cut_observer_(response.cut(), response.cut_round());
  }
  if (response.training_stopped()) training_stopped_ = true;
  if (response.draining()) {
    Lost(absl::CancelledError(
        response.reason().empty()
            ? "the job is being drained"
            : absl::StrCat("the job is being ended: ", response.reason())));
  }
  return absl::OkStatus();
}

void GrpcJobClient::SetCutObserver(CutObserver observer) {
  absl::MutexLock lock(&observer_mutex_);
  cut_observer_ = std::move(observer);
}

absl::Status GrpcJobClient::MarkCut(
    uint64_t cut, const std::vector<v1::TrainedExamples>& trained) {
  v1::MarkCutRequest request;
  request.set_worker_index(worker_index_.value());
  request.set_worker_generation(generation_.value());
  request.set_cut(cut);
  for (const v1::TrainedExamples& each : trained) *request.add_trained() = each;
  v1::MarkCutResponse response;
  return connections_->CallWithRetries(
      ServerIndex(0), [&](grpc::ClientContext* context) {
        return coordinator().MarkCut(context, request, &response);
      });
}

absl::Status GrpcJobClient::Barrier(const std::string& name) {
  return WaitAtBarrier(name, /*trained_epochs=*/0);
}

absl::Status GrpcJobClient::WaitForTrained(uint32_t epoch) {
  return WaitAtBarrier(AfterTraining(epoch), epoch + 1);
}

absl::Status GrpcJobClient::WaitAtBarrier(const std::string& name,
                                          uint32_t trained_epochs) {
  v1::BarrierRequest request;
  request.set_name(name);
  request.set_trained_epochs(trained_epochs);
  request.set_worker_index(worker_index_.value());
  request.set_worker_generation(generation_.value());
  request.set_wait_ms(
      static_cast<uint32_t>(absl::ToInt64Milliseconds(kBarrierWait)));
  for (;;) {
    OARLOCK_RETURN_IF_ERROR(Alive());
    bool passed = false;
    // "Not yet" is a response, so it does not count against the time limit of
    // retries.
    OARLOCK_RETURN_IF_ERROR(connections_->CallWithRetries(
        ServerIndex(0), [&](grpc::ClientContext* context) {
          v1::BarrierResponse response;
          const grpc::Status status =
              coordinator().Barrier(context, request, &response);
          passed = status.ok();
          const bool not_yet =
              status.error_code() == grpc::StatusCode::UNAVAILABLE &&
              absl::StartsWith(status.error_message(), cluster::kBarrierNotYet);
          return not_yet ? grpc::Status::OK : status;
        }));
    if (passed) return absl::OkStatus();
  }
}

absl::StatusOr<uint64_t> GrpcJobClient::SetRoundMembership(
    ServerIndex server, bool joins, uint64_t number,
    absl::Duration give_up_after) {
  v1::RoundMembershipRequest request;
  request.set_worker_index(worker_index_.value());
  request.set_worker_generation(generation_.value());
  request.set_joins(joins);
  request.set_request(number);
  v1::RoundMembershipResponse response;
  OARLOCK_RETURN_IF_ERROR(connections_->CallWithRetries(
      server, give_up_after, [&](grpc::ClientContext* context) {
        return connections_->servers()[server.value()]
            .admin->SetRoundMembership(context, request, &response);
      }));
  return response.round();
}

absl::StatusOr<uint64_t> GrpcJobClient::SetRoundMembership(bool joins) {
  uint64_t number;
  {
    absl::MutexLock lock(&mutex_);
    in_rounds_ = joins;
    number = ++last_round_request_;
  }
  uint64_t round = 0;
  for (uint32_t i = 0; i < connections_->servers().size(); ++i) {
    OARLOCK_ASSIGN_OR_RETURN(const uint64_t complete,
                             SetRoundMembership(ServerIndex(i), joins, number,
                                                connections_->retry_timeout()));
    round = std::max(round, complete);
  }
  return round;
}

absl::Status GrpcJobClient::RejoinRounds(ServerIndex server) {
  bool joins;
  uint64_t number;
  {
    absl::MutexLock lock(&mutex_);
    if (last_round_request_ == 0) return absl::OkStatus();
    joins = in_rounds_;
    number = ++last_round_request_;
  }
  return SetRoundMembership(server, joins, number,
                            connections_->options().rpc_timeout)
      .status();
}

absl::StatusOr<uint64_t> GrpcJobClient::JoinRounds() {
  return SetRoundMembership(true);
}

absl::Status GrpcJobClient::LeaveRounds() {
  return SetRoundMembership(false).status();
}

absl::StatusOr<v1::StepClockResponse> GrpcJobClient::CallStepClock(
    v1::StepClockRequest request) {
  request.set_worker_index(worker_index_.value());
  request.set_worker_generation(generation_.value());
  {
    absl::MutexLock lock(&mutex_);
    request.set_request(++last_step_request_);
  }
  v1::StepClockResponse response;
  OARLOCK_RETURN_IF_ERROR(connections_->CallWithRetries(
      ServerIndex(0), [&](grpc::ClientContext* context) {
        return coordinator().StepClock(context, request, &response);
      }));
  return response;
}

absl::StatusOr<uint64_t> GrpcJobClient::JoinSteps() {
  v1::StepClockRequest request;
  request.set_change(v1::StepClockRequest::JOIN);
  OARLOCK_ASSIGN_OR_RETURN(const v1::StepClockResponse response,
                           CallStepClock(request));
  return response.finished();
}

absl::StatusOr<uint64_t> GrpcJobClient::ReportSteps(uint64_t finished,
                                                    uint64_t awaited) {
  OARLOCK_RETURN_IF_ERROR(Alive());
  v1::StepClockRequest request;
  request.set_change(v1::StepClockRequest::REPORT);
  request.set_finished(finished);
  request.set_awaited(awaited);
  request.set_wait_ms(kStepWaitMs);
  OARLOCK_ASSIGN_OR_RETURN(const v1::StepClockResponse response,
                           CallStepClock(request));
  return response.slowest();
}

absl::Status GrpcJobClient::LeaveSteps() {
  v1::StepClockRequest request;
  request.set_change(v1::StepClockRequest::LEAVE);
  return CallStepClock(request).status();
}

absl::StatusOr<data::ExampleIntervals> GrpcJobClient::DefinePhase(
    const std::string& phase_name, const std::vector<data::DataRange>& items,
    uint64_t num_examples, const std::string& order) {
  const v1::DefinePhaseRequest request =
      ToDefinePhaseRequest(phase_name, items, num_examples, order);
  v1::DefinePhaseResponse response;
  absl::Status defined = connections_->CallWithRetries(
      ServerIndex(0), [&](grpc::ClientContext* context) {
        return coordinator().DefinePhase(context, request, &response);
      });
  if (absl::IsFailedPrecondition(defined) && phase_name == kFirstPhase &&
      !registration_.unfinished().empty()) {
    // Of the engine, but of other data.
    OARLOCK_RETURN_IF_ERROR(RollBack(std::string(defined.message())));
    return Annotate(defined,
                    "the servers have gone back to the newest checkpoint, or "
                    "to the beginning; start this run again");
  }
  OARLOCK_RETURN_IF_ERROR(defined);
  data::ExampleIntervals covered;
  for (const v1::DataRange& range : response.covered()) {
    covered.Add({range.source(), range.begin(), range.end()});
  }
  return covered;
}

uint64_t GrpcJobClient::BeginLease() {
  absl::MutexLock lock(&mutex_);
  const auto may = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return unanswered_leases_.empty() ||
           last_lease_request_ + 1 <
               *unanswered_leases_.begin() + cluster::kMaxLeaseCallSpan;
  };
  mutex_.Await(absl::Condition(&may));
  unanswered_leases_.insert(++last_lease_request_);
  return last_lease_request_;
}

void GrpcJobClient::EndLease(uint64_t number) {
  absl::MutexLock lock(&mutex_);
  unanswered_leases_.erase(number);
}

absl::StatusOr<Leases> GrpcJobClient::LeaseRanges(
    const std::string& phase_name, uint32_t max_items,
    const std::vector<uint64_t>& done_leases) {
  v1::LeaseRangesRequest request;
  request.set_phase_name(phase_name);
  request.set_worker_index(worker_index_.value());
  request.set_worker_generation(generation_.value());
  request.set_max_ranges(max_items);
  for (uint64_t lease : done_leases) request.add_done(lease);
  request.set_request(BeginLease());
  v1::LeaseRangesResponse response;
  const absl::Status status = connections_->CallWithRetries(
      ServerIndex(0), [&](grpc::ClientContext* context) {
        return coordinator().LeaseRanges(context, request, &response);
      });
  EndLease(request.request());
  OARLOCK_RETURN_IF_ERROR(status);
  if (response.leases_size() != response.ranges_size()) {
    return absl::InternalError("the coordinator leased ranges without numbers");
  }
  return ToLeases(response);
}

absl::StatusOr<v1::JobStatusResponse> GrpcJobClient::GetJobStatus() {
  v1::JobStatusResponse response;
  OARLOCK_RETURN_IF_ERROR(connections_->CallWithRetries(
      ServerIndex(0), [&](grpc::ClientContext* context) {
        return coordinator().GetJobStatus(context, v1::JobStatusRequest(),
                                          &response);
      }));
  return response;
}

absl::Status GrpcJobClient::Finish(const absl::Status& outcome) {
  return FinishWith(outcome, /*roll_back=*/false);
}

absl::Status GrpcJobClient::RollBack(const std::string& reason) {
  return FinishWith(absl::CancelledError(reason), /*roll_back=*/true);
}

absl::Status GrpcJobClient::FinishWith(const absl::Status& outcome,
                                       bool roll_back) {
  StopHeartbeat();
  v1::FinishWorkerRequest request;
  request.set_worker_index(worker_index_.value());
  request.set_worker_generation(generation_.value());
  request.set_succeeded(outcome.ok());
  request.set_reason(std::string(outcome.message()));
  request.set_roll_back(roll_back);
  v1::FinishWorkerResponse response;
  OARLOCK_RETURN_IF_ERROR(connections_->CallWithRetries(
      ServerIndex(0),
      outcome.ok() ? connections_->retry_timeout() : kGiveUpTimeout,
      [&](grpc::ClientContext* context) {
        return coordinator().FinishWorker(context, request, &response);
      }));
  if (outcome.ok()) SendLastHeartbeat();
  return absl::OkStatus();
}

void GrpcJobClient::SendLastHeartbeat() {
  v1::HeartbeatRequest request;
  request.set_worker_index(worker_index_.value());
  request.set_worker_generation(generation_.value());
  for (int attempt = 1; attempt <= kLastHeartbeatAttempts; ++attempt) {
    grpc::ClientContext context;
    connections_->Prepare(&context, kLastHeartbeatTimeout);
    v1::HeartbeatResponse response;
    const absl::Status status = cluster::FromGrpc(
        coordinator().Heartbeat(&context, request, &response));
    if (!absl::IsUnavailable(status)) return;
  }
}

}  // namespace oarlock::client
