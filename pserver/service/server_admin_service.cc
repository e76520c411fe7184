#include "pserver/service/server_admin_service.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "cluster/connect.h"
#include "proto/v1/server_admin_service.grpc.pb.h"
#include "pserver/rpc/service_methods.h"

namespace oarlock::pserver {
namespace {

// Keys of a table in one response about hot keys.
constexpr uint32_t kMaxHotKeys = 1024;
// Partitions in one response, some 40 bytes each.
constexpr size_t kMaxPartitionsShown = size_t{1} << 19;
// Of what a client says of itself, in responses and logs.
constexpr size_t kMaxShownBytes = 256;

}  // namespace

class ServerAdminService::Impl {
 public:
  Impl(const ServerAdminOptions& options, const cluster::PartitionMap& map,
       TableRegistry* registry, RoundMembership* round_membership,
       EvictionLoop* eviction_loop, const Clock& clock)
      : options_(options),
        map_(map),
        registry_(registry),
        round_membership_(round_membership),
        clock_(clock),
        start_(clock.Now()),
        methods_(options.token) {
    using S = v1::ServerAdminService::AsyncService;
    methods_.Add(
        &S::RequestConnect,
        [this](PendingCall<v1::ConnectRequest, v1::ConnectResponse> call) {
          const auto response = Connect(call.context(), call.request());
          if (!response.ok()) return call.Fail(response.status());
          call.Answer(*response);
        });
    methods_.AddAnswer(&S::RequestCreateTable,
                       [this](const v1::CreateTableRequest& request) {
                         registry_->BeginRun(request.run());
                         return registry_->Create(request.config());
                       });
    methods_.AddAnswer(&S::RequestSetRoundMembership,
                       [this](const v1::RoundMembershipRequest& request) {
                         return SetRoundMembership(request);
                       });
    methods_.AddAnswer(&S::RequestGetServerStatus,
                       [this](const v1::ServerStatusRequest& request) {
                         return GetServerStatus(request);
                       });
    methods_.AddAnswer(&S::RequestGetHotKeys,
                       [this](const v1::HotKeysRequest& request) {
                         return GetHotKeys(request);
                       });
    methods_.AddAnswer(
        &S::RequestListChanges, [this](const v1::ListChangesRequest& request) {
          return registry_->ListChanges(request, options_.server_generation);
        });
    methods_.AddAsync(
        &S::RequestEvict,
        [eviction_loop](const v1::EvictRequest& request, auto done) {
          eviction_loop->Evict(request, std::move(done));
        });
  }

  grpc::Service* service() { return methods_.service(); }
  CallQueues::Acceptor Acceptor(std::shared_ptr<QueueGate> gate) const {
    return methods_.Acceptor(std::move(gate));
  }

 private:
  absl::StatusOr<v1::ConnectResponse> Connect(
      const grpc::ServerContext& context, const v1::ConnectRequest& request);
  absl::Status CheckConnect(const v1::ConnectRequest& request) const;
  absl::StatusOr<v1::RoundMembershipResponse> SetRoundMembership(
      const v1::RoundMembershipRequest& request);
  v1::ServerStatusResponse GetServerStatus(
      const v1::ServerStatusRequest& request);
  absl::StatusOr<v1::HotKeysResponse> GetHotKeys(
      const v1::HotKeysRequest& request);

  const ServerAdminOptions options_;
  const cluster::PartitionMap map_;
  TableRegistry* const registry_;
  RoundMembership* const round_membership_;
  const Clock& clock_;
  const absl::Time start_;
  ServiceMethods<v1::ServerAdminService::AsyncService> methods_;
};

absl::Status ServerAdminService::Impl::CheckConnect(
    const v1::ConnectRequest& request) const {
  OARLOCK_RETURN_IF_ERROR(
      cluster::CheckClientVersion(request.protocol_version()));
  // A client that names no job means any.
  if (!request.job_id().empty() && request.job_id() != options_.job_id) {
    return absl::FailedPreconditionError(absl::StrCat(
        "this server belongs to job '", options_.job_id,
        "', the client to "
        "job '",
        request.job_id().substr(0, kMaxShownBytes),
        "'; give both the same --job_id, or this job other ports"));
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::ConnectResponse> ServerAdminService::Impl::Connect(
    const grpc::ServerContext& context, const v1::ConnectRequest& request) {
  const std::string client = request.client().substr(0, kMaxShownBytes);
  if (absl::Status status = CheckConnect(request); !status.ok()) {
    Log().warn("refused {} from {}: {}", client, context.peer(),
               std::string(status.message()));
    return status;
  }
  // People's tools, which name no job, come every few seconds.
  if (!request.job_id().empty()) {
    Log().info("{} connected from {}", client, context.peer());
  }
  v1::ConnectResponse response;
  response.set_server_index(options_.server.value());
  response.set_server_generation(options_.server_generation.value());
  *response.mutable_partition_map() = map_.ToProto();
  response.set_num_workers(options_.num_workers);
  response.set_stays(options_.stay);
  response.set_restored_cut(options_.restored_cut);
  response.set_lossless(options_.lossless);
  response.set_has_checkpoints(options_.has_checkpoints);
  response.set_log_may_lack_its_end(options_.log_may_lack_its_end);
  response.mutable_replayed()->Add(options_.replayed.begin(),
                                   options_.replayed.end());
  response.set_checkpoint_dir(options_.checkpoint_dir);
  response.set_checkpoint_mark(options_.checkpoint_mark);
  return response;
}

absl::StatusOr<v1::RoundMembershipResponse>
ServerAdminService::Impl::SetRoundMembership(
    const v1::RoundMembershipRequest& request) {
  v1::RoundMembershipResponse response;
  OARLOCK_ASSIGN_OR_RETURN(
      const uint64_t round,
      round_membership_->SetMember(WorkerIndex(request.worker_index()),
                                   Generation(request.worker_generation()),
                                   request.joins(), request.request()));
  response.set_round(round);
  return response;
}

v1::ServerStatusResponse ServerAdminService::Impl::GetServerStatus(
    const v1::ServerStatusRequest& request) {
  v1::ServerStatusResponse response;
  response.set_server_index(options_.server.value());
  response.set_server_generation(options_.server_generation.value());
  for (v1::TableStatus& table : registry_->Describe(
           request.with_partitions() ? kMaxPartitionsShown : 0)) {
    *response.add_tables() = std::move(table);
  }
  response.set_held_pushes(registry_->HeldPushes());
  response.set_logical_time(registry_->clock().Now());
  response.set_uptime_seconds(absl::ToDoubleSeconds(clock_.Now() - start_));
  for (const std::string& endpoint : options_.server_endpoints) {
    response.add_server_endpoints(endpoint);
  }
  return response;
}

absl::StatusOr<v1::HotKeysResponse> ServerAdminService::Impl::GetHotKeys(
    const v1::HotKeysRequest& request) {
  if (request.max_keys() < 1 || request.max_keys() > kMaxHotKeys) {
    return absl::InvalidArgumentError(absl::StrCat(
        "max_keys is ", request.max_keys(), "; legal are 1 to ", kMaxHotKeys));
  }
  v1::HotKeysResponse response;
  response.set_server_index(options_.server.value());
  OARLOCK_ASSIGN_OR_RETURN(
      std::vector<v1::TableHotKeys> tables,
      registry_->DescribeHotKeys(request.table(), request.max_keys()));
  for (v1::TableHotKeys& table : tables) {
    *response.add_tables() = std::move(table);
  }
  return response;
}

ServerAdminService::ServerAdminService(const ServerAdminOptions& options,
                                       const cluster::PartitionMap& map,
                                       TableRegistry* registry,
                                       RoundMembership* round_membership,
                                       EvictionLoop* eviction_loop,
                                       const Clock& clock)
    : impl_(std::make_unique<Impl>(options, map, registry, round_membership,
                                   eviction_loop, clock)) {}

ServerAdminService::~ServerAdminService() = default;

grpc::Service* ServerAdminService::service() { return impl_->service(); }

CallQueues::Acceptor ServerAdminService::Acceptor(
    std::shared_ptr<QueueGate> gate) const {
  return impl_->Acceptor(std::move(gate));
}

}  // namespace oarlock::pserver
