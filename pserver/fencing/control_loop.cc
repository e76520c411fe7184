#include "pserver/fencing/control_loop.h"

#include <grpcpp/client_context.h>

#include <algorithm>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "cluster/connect.h"
#include "cluster/retry.h"
#include "cluster/security.h"
#include "storage/folder_mark.h"

namespace oarlock::pserver {
namespace {

void Prepare(grpc::ClientContext* context, const std::string& token,
             absl::Duration timeout) {
  context->set_deadline(GrpcDeadline(timeout));
  // gRPC connects only while somebody waits for the connection.
  context->set_wait_for_ready(true);
  if (!token.empty()) context->AddMetadata(cluster::kTokenMetadataKey, token);
}

uint64_t RandomId() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

// A turn may take so many times what its interval and its call may.
constexpr int kTurnSlack = 2;

bool IsTransient(const absl::Status& status) {
  const cluster::RetryAdvice advice = cluster::AdviceFor(status.code());
  return advice == cluster::RetryAdvice::kSameCall ||
         advice == cluster::RetryAdvice::kSameCallSlower;
}

}  // namespace

ControlLoop::ControlLoop(
    const ControlLoopOptions& options, const cluster::PartitionMap& map,
    coordinator::Coordinator* coordinator,
    std::shared_ptr<grpc::Channel> channel, CoordinatorTerm* term,
    RoundMembership* round_membership, LogicalClock* logical_clock,
    LedgerReporter* ledgers, CutObserver cut_observer,
    std::function<bool()> checkpoint_is_due, const Clock& clock)
    : options_(options),
      map_(map),
      coordinator_(coordinator),
      admin_stub_(channel == nullptr
                      ? nullptr
                      : v1::ServerAdminService::NewStub(channel)),
      coordinator_stub_(channel == nullptr
                            ? nullptr
                            : v1::CoordinatorService::NewStub(channel)),
      term_(term),
      registration_id_(RandomId()),
      round_membership_(round_membership),
      logical_clock_(logical_clock),
      ledgers_(ledgers),
      cut_observer_(std::move(cut_observer)),
      checkpoint_is_due_(std::move(checkpoint_is_due)),
      clock_(clock),
      last_turn_(clock.Now()) {}

ControlLoop::~ControlLoop() { Stop(); }

void ControlLoop::Start() {
  // The coordinator's own server may take pushes from the first call on.
  if (coordinator_ != nullptr) CoordinatorTurn();
  thread_ = std::thread([this] { Run(); });
}

void ControlLoop::Run() {
  const absl::Duration interval = coordinator_ != nullptr
                                      ? options_.deadline_interval
                                      : options_.heartbeat_interval;
  while (!WaitFor(absl::ZeroDuration()) &&
         !(coordinator_ != nullptr ? CoordinatorTurn() : FollowerTurn())) {
    if (!Pause(ledgers_->due() ? std::min(interval, kLedgerInterval)
                               : interval)) {
      continue;
    }
    // The coordinator learns why its job cannot go on.
    if (coordinator_stub_ != nullptr && connected_) SendLastHeartbeat();
    End(absl::OkStatus());
    return;
  }
}

bool ControlLoop::CoordinatorTurn() {
  coordinator_->CheckDeadlines();
  absl::StatusOr<v1::ServerHeartbeatResponse> response =
      coordinator_->ServerHeartbeat(MakeHeartbeat(/*leaving=*/false));
  if (!response.ok()) {
    // Its log has no room at the moment.
    if (IsTransient(response.status())) return false;
    // Another process says it is server 0 and reports to this one, or the log
    // takes no more calls.
    End(Annotate(response.status(), "server 0"));
    return true;
  }
  if (absl::Status status = Apply(*response); !status.ok()) {
    End(std::move(status));
    return true;
  }
  if (coordinator_->rolls_back()) {
    EndForRollBack();
    return true;
  }
  if (!response->job_finished()) return false;
  const absl::Time now = clock_.Now();
  over_since_ = std::min(over_since_, now);
  if (!coordinator_->OthersKnowItIsOver(options_.server) &&
      now - over_since_ < kLinger) {
    return false;
  }
  End(response->failed() ? absl::AbortedError(absl::StrCat(
                               "the job has failed: ", response->reason()))
                         : absl::OkStatus());
  return true;
}

bool ControlLoop::FollowerTurn() {
  if (!connected_) {
    if (absl::Status status = Connect(); !status.ok()) {
      return RecordFailure(status);
    }
    connected_ = true;
    Log().info("reports to the coordinator at {}",
               options_.coordinator_endpoint);
  }
  absl::StatusOr<v1::ServerHeartbeatResponse> response =
      SendHeartbeat(/*leaving=*/false, options_.heartbeat_call_timeout);
  if (!response.ok()) return RecordFailure(response.status());
  last_turn_ = clock_.Now();
  outage_ = absl::ZeroDuration();
  if (std::exchange(outage_logged_, false)) {
    Log().info("the coordinator is back");
  }
  if (absl::Status status = Apply(*response); !status.ok()) {
    End(std::move(status));
    return true;
  }
  if (!response->job_finished()) return false;
  SendLastHeartbeat();
  End(response->failed() ? absl::AbortedError(absl::StrCat(
                               "the job has failed: ", response->reason()))
                         : absl::OkStatus());
  return true;
}

void ControlLoop::SendLastHeartbeat() {
  for (int attempt = 1; attempt <= kLastHeartbeatAttempts; ++attempt) {
    const absl::Status status =
        SendHeartbeat(/*leaving=*/true, kLastHeartbeatTimeout).status();
    if (!absl::IsUnavailable(status)) return;
  }
}

absl::Status ControlLoop::Connect() {
  grpc::ClientContext context;
  Prepare(&context, options_.token, options_.heartbeat_call_timeout);
  OARLOCK_ASSIGN_OR_RETURN(
      const v1::ConnectResponse response,
      cluster::Connect(admin_stub_.get(), options_.job_id,
                       absl::StrCat("server ", options_.server.value()),
                       &context));
  if (response.server_index() != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("it says that it is server ", response.server_index(),
                     ", not 0; give all servers the same list"));
  }
  const v1::PartitionMap& theirs = response.partition_map();
  if (theirs.num_servers() != map_.num_servers() ||
      theirs.num_partitions() != map_.num_partitions() ||
      response.num_workers() != options_.num_workers) {
    return absl::FailedPreconditionError(absl::StrCat(
        "it has ", theirs.num_servers(), " servers, ", response.num_workers(),
        " workers and ", theirs.num_partitions(), " partitions, this server ",
        map_.num_servers(), ", ", options_.num_workers, " and ",
        map_.num_partitions(), "; start all servers with the same ones"));
  }
  // Before hours of training, not at the first checkpoint.
  if (!response.has_checkpoints() && !options_.checkpoint_dir.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("it has no --checkpoint_dir, and this server has ",
                     options_.checkpoint_dir, "; give all servers the same"));
  }
  return storage::CheckFolderMark(options_.checkpoint_dir,
                                  response.checkpoint_dir(),
                                  response.checkpoint_mark());
}

v1::ServerHeartbeatRequest ControlLoop::MakeHeartbeat(bool leaving) {
  v1::ServerHeartbeatRequest request;
  request.set_server_index(options_.server.value());
  request.set_server_generation(options_.server_generation.value());
  request.set_workers_version(workers_version_);
  request.set_checkpoint_due(checkpoint_is_due_());
  request.set_leaving(leaving);
  request.set_registration_id(registration_id_);
  request.set_term(term_->highest());
  request.set_evicted_time(logical_clock_->evicted());
  ledgers_->Fill(&request);
  return request;
}

absl::StatusOr<v1::ServerHeartbeatResponse> ControlLoop::SendHeartbeat(
    bool leaving, absl::Duration timeout) {
  grpc::ClientContext context;
  Prepare(&context, options_.token, timeout);
  const v1::ServerHeartbeatRequest request = MakeHeartbeat(leaving);
  v1::ServerHeartbeatResponse response;
  OARLOCK_RETURN_IF_ERROR(cluster::FromGrpc(
      coordinator_stub_->ServerHeartbeat(&context, request, &response)));
  return response;
}

absl::Duration ControlLoop::WaitedSinceLastTurn() {
  const absl::Time now = clock_.Now();
  const absl::Duration elapsed = now - std::exchange(last_turn_, now);
  const absl::Duration longest_turn =
      kTurnSlack *
      (options_.heartbeat_interval + options_.heartbeat_call_timeout);
  if (elapsed <= longest_turn) return elapsed;
  Log().warn("this server stood still for {:.1f} s; nobody is blamed for that",
             absl::ToDoubleSeconds(elapsed));
  return longest_turn;
}

bool ControlLoop::RecordFailure(const absl::Status& status) {
  const std::string who =
      absl::StrCat("coordinator at ", options_.coordinator_endpoint);
  if (!IsTransient(status)) {
    End(Annotate(status, absl::StrCat("the ", who, " refuses this server")));
    return true;
  }
  outage_ += WaitedSinceLastTurn();
  const absl::Duration limit =
      connected_ ? options_.coordinator_timeout : options_.start_timeout;
  if (outage_ > limit) {
    End(absl::UnavailableError(absl::StrCat(
        "the ", who, " was silent for more than ", absl::FormatDuration(limit),
        ": ", status.message(), "; is server 0 running?")));
    return true;
  }
  if (outage_ > options_.lease && !std::exchange(outage_logged_, true)) {
    Log().warn(
        "the {} has been silent for {:.0f} s ({}); this server goes "
        "on serving, and gives up after {:.0f} s",
        who, absl::ToDoubleSeconds(outage_), std::string(status.message()),
        absl::ToDoubleSeconds(limit));
  }
  return false;
}

absl::Status ControlLoop::Apply(const v1::ServerHeartbeatResponse& response) {
  // An older coordinator may grant none.
  const uint64_t granted = response.granted_generation();
  if (granted != 0 && granted != options_.server_generation.value()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the coordinator grants generation ", granted,
                     ", and this process has ",
                     options_.server_generation.value(), "; start it again"));
  }
  term_->Observe(response.term());
  logical_clock_->AdvanceTo(response.logical_time());
  cut_observer_(response.opened_cut(), response.finished_cut(),
                response.cuts_wait());
  ledgers_->Apply(response);
  if (response.workers_version() == workers_version_) return absl::OkStatus();
  round_membership_->Apply(response.workers());
  workers_version_ = response.workers_version();
  return absl::OkStatus();
}

void ControlLoop::Wake() {
  absl::MutexLock lock(&mutex_);
  const absl::Time now = clock_.Now();
  if (now - last_wake_ < kWakeInterval) return;
  last_wake_ = now;
  wake_ = true;
}

void ControlLoop::End(absl::Status outcome) {
  absl::MutexLock lock(&mutex_);
  if (ended_) return;
  ended_ = true;
  outcome_ = std::move(outcome);
}

bool ControlLoop::Pause(absl::Duration interval) {
  absl::MutexLock lock(&mutex_);
  const auto due = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stop_ || wake_ || ended_;
  };
  clock_.AwaitFor(&mutex_, absl::Condition(&due), interval);
  wake_ = false;
  return stop_;
}

absl::Status ControlLoop::Wait() {
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(&ended_));
  return outcome_;
}

bool ControlLoop::WaitFor(absl::Duration limit) {
  absl::MutexLock lock(&mutex_);
  return clock_.AwaitFor(&mutex_, absl::Condition(&ended_), limit);
}

void ControlLoop::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
  }
  if (thread_.joinable()) thread_.join();
  End(absl::OkStatus());
}

}  // namespace oarlock::pserver
