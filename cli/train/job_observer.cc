#include "cli/train/job_observer.h"

#include "base/status_macros.h"
#include "cluster/retry.h"

namespace oarlock::cli {
namespace {

// How long a checkpoint may take.
constexpr absl::Duration kDrainTimeout = absl::Hours(1);

}  // namespace

absl::Status JobObserver::Connect() {
  if (connections_ != nullptr) return absl::OkStatus();
  OARLOCK_ASSIGN_OR_RETURN(connections_,
                           client::ServerConnections::Connect(options_));
  return absl::OkStatus();
}

absl::Status JobObserver::Ask(
    absl::FunctionRef<grpc::Status(grpc::ClientContext*)> call) {
  OARLOCK_RETURN_IF_ERROR(Connect());
  return connections_->CallWithRetries(ServerIndex(0), options_.rpc_timeout,
                                       call);
}

absl::StatusOr<v1::JobStatusResponse> JobObserver::Status() {
  v1::JobStatusResponse response;
  OARLOCK_RETURN_IF_ERROR(Ask([&](grpc::ClientContext* context) {
    return connections_->coordinator().GetJobStatus(
        context, v1::JobStatusRequest(), &response);
  }));
  return response;
}

absl::Status JobObserver::Retried(
    absl::FunctionRef<absl::Status()> call) const {
  const Clock& clock = *options_.clocks.monotonic;
  const absl::Time give_up_at = clock.Now() + kRetryFor;
  while (true) {
    const absl::Status status = call();
    const bool may_succeed =
        absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
    if (!may_succeed || clock.Now() >= give_up_at) return status;
    clock.Sleep(options_.connect_timeout);
  }
}

absl::Status JobObserver::Stop(const std::string& reason) {
  v1::StopTrainingRequest request;
  request.set_reason(reason);
  return Retried([&] {
    v1::StopTrainingResponse response;
    return Ask([&](grpc::ClientContext* context) {
      return connections_->coordinator().StopTraining(context, request,
                                                      &response);
    });
  });
}

absl::Status JobObserver::Drain(const std::string& reason) {
  OARLOCK_RETURN_IF_ERROR(Retried([this] { return Connect(); }));
  v1::DrainRequest request;
  request.set_reason(reason);
  v1::DrainResponse response;
  grpc::ClientContext context;
  connections_->PrepareToWait(&context, kDrainTimeout);
  return cluster::FromGrpc(
      connections_->coordinator().Drain(&context, request, &response));
}

absl::StatusOr<std::string> JobObserver::CheckpointDir() {
  std::string folder;
  OARLOCK_RETURN_IF_ERROR(Retried([&]() -> absl::Status {
    OARLOCK_RETURN_IF_ERROR(Connect());
    OARLOCK_ASSIGN_OR_RETURN(
        const v1::ConnectResponse response,
        connections_->ConnectAnew(ServerIndex(0), options_.connect_timeout));
    folder = response.checkpoint_dir();
    return absl::OkStatus();
  }));
  return folder;
}

}  // namespace oarlock::cli
