#include "pserver/admin_service.h"

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "cluster/retry.h"
#include "cluster/security.h"
#include "cluster/wire_version.h"

namespace oarlock {
namespace {

AdminService::Reactor* Finish(AdminService::Context* context,
                              const absl::Status& status) {
  AdminService::Reactor* reactor = context->DefaultReactor();
  reactor->Finish(ToGrpc(status));
  return reactor;
}

template <typename Response>
AdminService::Reactor* Finish(AdminService::Context* context,
                              absl::StatusOr<Response> result,
                              Response* response) {
  if (!result.ok()) return Finish(context, result.status());
  *response = *std::move(result);
  return Finish(context, absl::OkStatus());
}

}  // namespace

AdminService::AdminService(const AdminServiceOptions& options,
                           const PartitionMap& map, TableRegistry* registry,
                           RoundRoster* roster, Coordinator* coordinator,
                           const Clock& clock)
    : options_(options),
      map_(map),
      registry_(registry),
      roster_(roster),
      coordinator_(coordinator),
      clock_(clock),
      start_(clock.Now()) {}

absl::Status AdminService::CheckToken(const Context& context) const {
  if (options_.token.empty()) return absl::OkStatus();
  const auto& metadata = context.client_metadata();
  auto it = metadata.find(kTokenMetadataKey);
  if (it == metadata.end()) {
    return absl::UnauthenticatedError(
        "the call carries no token, and this server demands one; give "
        "--token_file");
  }
  if (!TokensEqual(std::string(it->second.data(), it->second.size()),
                   options_.token)) {
    return absl::UnauthenticatedError(
        "the call carries another token than this server's; give both the "
        "same --token_file");
  }
  return absl::OkStatus();
}

absl::Status AdminService::CheckIsCoordinator() const {
  if (coordinator_ != nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("this is server ", options_.server.value(),
                   ", and only the coordinator answers that; ask server 0 at ",
                   options_.coordinator_endpoint));
}

absl::Status AdminService::CheckCoordinatorCall(const Context& context) const {
  OARLOCK_RETURN_IF_ERROR(CheckToken(context));
  return CheckIsCoordinator();
}

absl::Status AdminService::CheckConnect(
    const v1::ConnectRequest& request) const {
  if (request.protocol_version() != kProtocolVersion) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the client speaks protocol version ", request.protocol_version(),
        ", this server ", kProtocolVersion,
        "; use servers and workers of one release"));
  }
  if (request.job_id() != options_.job_id) {
    return absl::FailedPreconditionError(absl::StrCat(
        "this server belongs to job '", options_.job_id,
        "', the client to "
        "job '",
        request.job_id(),
        "'; give both the same --job_id, or this job other ports"));
  }
  return absl::OkStatus();
}

AdminService::Reactor* AdminService::Connect(Context* context,
                                             const v1::ConnectRequest* request,
                                             v1::ConnectResponse* response) {
  absl::Status status = CheckToken(*context);
  if (status.ok()) status = CheckConnect(*request);
  if (status.ok()) {
    spdlog::info("{} connected from {}", request->client().substr(0, 64),
                 context->peer());
    response->set_server_index(options_.server.value());
    response->set_server_generation(options_.server_generation.value());
    *response->mutable_partition_map() = map_.ToProto();
    response->set_num_workers(options_.num_workers);
  } else {
    spdlog::warn("refused {} from {}: {}", request->client().substr(0, 64),
                 context->peer(), std::string(status.message()));
  }
  return Finish(context, status);
}

AdminService::Reactor* AdminService::RegisterWorker(
    Context* context, const v1::RegisterWorkerRequest* request,
    v1::RegisterWorkerResponse* response) {
  if (absl::Status status = CheckCoordinatorCall(*context); !status.ok()) {
    return Finish(context, status);
  }
  return Finish(context, coordinator_->RegisterWorker(*request), response);
}

AdminService::Reactor* AdminService::Heartbeat(
    Context* context, const v1::HeartbeatRequest* request,
    v1::HeartbeatResponse* response) {
  if (absl::Status status = CheckCoordinatorCall(*context); !status.ok()) {
    return Finish(context, status);
  }
  return Finish(context, coordinator_->Heartbeat(*request), response);
}

AdminService::Reactor* AdminService::FinishWorker(
    Context* context, const v1::FinishWorkerRequest* request,
    v1::FinishWorkerResponse* response) {
  absl::Status status = CheckCoordinatorCall(*context);
  if (status.ok()) status = coordinator_->FinishWorker(*request);
  return Finish(context, status);
}

AdminService::Reactor* AdminService::ServerHeartbeat(
    Context* context, const v1::ServerHeartbeatRequest* request,
    v1::ServerHeartbeatResponse* response) {
  if (absl::Status status = CheckCoordinatorCall(*context); !status.ok()) {
    return Finish(context, status);
  }
  return Finish(context, coordinator_->ServerHeartbeat(*request), response);
}

AdminService::Reactor* AdminService::CreateTable(
    Context* context, const v1::CreateTableRequest* request,
    v1::CreateTableResponse* response) {
  absl::Status status = CheckToken(*context);
  if (status.ok()) status = registry_->Create(request->config());
  return Finish(context, status);
}

AdminService::Reactor* AdminService::Barrier(Context* context,
                                             const v1::BarrierRequest* request,
                                             v1::BarrierResponse* response) {
  if (absl::Status status = CheckCoordinatorCall(*context); !status.ok()) {
    return Finish(context, status);
  }
  // The default reactor lives until it is finished, also when the client has
  // gone meanwhile.
  Reactor* reactor = context->DefaultReactor();
  coordinator_->Barrier(*request, [reactor](absl::Status status) {
    reactor->Finish(ToGrpc(status));
  });
  return reactor;
}

AdminService::Reactor* AdminService::SetRoundMembership(
    Context* context, const v1::RoundMembershipRequest* request,
    v1::RoundMembershipResponse* response) {
  if (absl::Status status = CheckToken(*context); !status.ok()) {
    return Finish(context, status);
  }
  const absl::StatusOr<uint64_t> round = roster_->SetMember(
      WorkerIndex(request->worker_index()),
      Generation(request->worker_generation()), request->joins());
  if (round.ok()) response->set_round(*round);
  return Finish(context, round.status());
}

AdminService::Reactor* AdminService::DefineWork(
    Context* context, const v1::DefineWorkRequest* request,
    v1::DefineWorkResponse* response) {
  absl::Status status = CheckCoordinatorCall(*context);
  if (status.ok()) status = coordinator_->DefineWork(*request);
  return Finish(context, status);
}

AdminService::Reactor* AdminService::LeaseWork(
    Context* context, const v1::LeaseWorkRequest* request,
    v1::LeaseWorkResponse* response) {
  if (absl::Status status = CheckCoordinatorCall(*context); !status.ok()) {
    return Finish(context, status);
  }
  return Finish(context, coordinator_->LeaseWork(*request), response);
}

AdminService::Reactor* AdminService::GetJobStatus(
    Context* context, const v1::JobStatusRequest* request,
    v1::JobStatusResponse* response) {
  absl::Status status = CheckCoordinatorCall(*context);
  if (status.ok()) *response = coordinator_->JobStatus(*request);
  return Finish(context, status);
}

AdminService::Reactor* AdminService::GetServerStatus(
    Context* context, const v1::ServerStatusRequest* request,
    v1::ServerStatusResponse* response) {
  if (absl::Status status = CheckToken(*context); !status.ok()) {
    return Finish(context, status);
  }
  response->set_server_index(options_.server.value());
  response->set_server_generation(options_.server_generation.value());
  for (v1::TableStatus& table : registry_->Describe()) {
    *response->add_tables() = std::move(table);
  }
  response->set_held_pushes(registry_->HeldPushes());
  response->set_uptime_seconds(absl::ToDoubleSeconds(clock_.Now() - start_));
  return Finish(context, absl::OkStatus());
}

AdminService::Reactor* AdminService::Drain(Context* context,
                                           const v1::DrainRequest* request,
                                           v1::DrainResponse* response) {
  absl::Status status = CheckCoordinatorCall(*context);
  if (status.ok()) coordinator_->Drain(request->reason());
  return Finish(context, status);
}

}  // namespace oarlock
