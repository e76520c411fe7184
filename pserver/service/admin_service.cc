#include "pserver/service/admin_service.h"

#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "cluster/security.h"
#include "cluster/wire_version.h"
#include "proto/v1/admin.grpc.pb.h"
#include "pserver/rpc/unary_call.h"

namespace oarlock::pserver {
namespace {

// Calls of each method that a queue is ready to take at once; more wait inside
// gRPC.
constexpr int kAcceptsPerMethod = 2;

// Keys of a table in one response about hot keys.
constexpr uint32_t kMaxHotKeys = 1024;

}  // namespace

class AdminService::Impl {
 public:
  Impl(const AdminServiceOptions& options, const cluster::PartitionMap& map,
       TableRegistry* registry, RoundMembership* round_membership,
       coordinator::Coordinator* coordinator, EvictionLoop* eviction_loop,
       const Clock& clock)
      : options_(options),
        map_(map),
        registry_(registry),
        round_membership_(round_membership),
        coordinator_(coordinator),
        eviction_loop_(eviction_loop),
        clock_(clock),
        start_(clock.Now()) {
    using S = v1::AdminService::AsyncService;
    AddToAll(&S::RequestConnect, &Impl::Connect);
    AddToAll(&S::RequestCreateTable, &Impl::CreateTable);
    AddToAll(&S::RequestSetRoundMembership, &Impl::SetRoundMembership);
    AddToAll(&S::RequestGetServerStatus, &Impl::GetServerStatus);
    AddToAll(&S::RequestGetHotKeys, &Impl::GetHotKeys);
    AddToAll(&S::RequestListChanges, &Impl::ListChanges);
    AddToCoordinator(&S::RequestRegisterWorker,
                     &coordinator::Coordinator::RegisterWorker);
    AddToCoordinator(&S::RequestHeartbeat,
                     &coordinator::Coordinator::Heartbeat);
    AddToCoordinator(&S::RequestFinishWorker,
                     &coordinator::Coordinator::FinishWorker);
    AddToCoordinator(&S::RequestServerHeartbeat,
                     &coordinator::Coordinator::ServerHeartbeat);
    AddToCoordinator(&S::RequestDefinePhase,
                     &coordinator::Coordinator::DefinePhase);
    AddToCoordinator(&S::RequestLeaseRanges,
                     &coordinator::Coordinator::LeaseRanges);
    AddToCoordinator(&S::RequestGetJobStatus,
                     &coordinator::Coordinator::JobStatus);
    AddToCoordinator(&S::RequestMarkCut, &coordinator::Coordinator::MarkCut);
    AddToCoordinator(&S::RequestReportEvaluation,
                     &coordinator::Coordinator::ReportEvaluation);
    AddToCoordinator(&S::RequestStopTraining,
                     &coordinator::Coordinator::StopTraining);
    AddToCoordinator(&S::RequestBeginEpoch,
                     &coordinator::Coordinator::BeginEpoch);
    AddToCoordinator(&S::RequestRecordFile,
                     &coordinator::Coordinator::RecordFile);
    AddToCoordinator(&S::RequestListFiles,
                     &coordinator::Coordinator::ListFiles);
    AddDrain();
    AddCheckpoint();
    AddBarrier();
    AddStepClock();
    AddEvict();
  }

  void SetCheckpointLoop(CheckpointLoop* loop) { checkpoint_loop_ = loop; }
  void SetRestored(uint64_t cut, bool lossless) {
    restored_cut_ = cut;
    lossless_ = lossless;
  }
  grpc::Service* service() { return &service_; }

  void Accept(grpc::ServerCompletionQueue* queue,
              const std::shared_ptr<QueueGate>& gate) const {
    for (const auto& accept : accept_) {
      for (int i = 0; i < kAcceptsPerMethod; ++i) accept(queue, gate);
    }
  }

 private:
  // Registers a method. `ask` is a RequestX of the generated service;
  // `handle` gets a PendingCall whose token has been checked.
  template <typename S, typename Request, typename Response, typename Handle>
  void Add(void (S::*ask)(grpc::ServerContext*, Request*,
                          grpc::ServerAsyncResponseWriter<Response>*,
                          grpc::CompletionQueue*, grpc::ServerCompletionQueue*,
                          void*),
           Handle handle) {
    UnaryMethod<Request, Response> method;
    method.ask = [this, ask](grpc::ServerContext* context, Request* request,
                             grpc::ServerAsyncResponseWriter<Response>* writer,
                             grpc::ServerCompletionQueue* queue, void* tag) {
      (service_.*ask)(context, request, writer, queue, queue, tag);
    };
    method.handle = [this, handle](PendingCall<Request, Response> call) {
      const absl::Status status =
          cluster::CheckToken(call.context(), options_.token);
      if (!status.ok()) return call.Fail(status);
      handle(std::move(call));
    };
    accept_.push_back(
        [method = std::make_unique<const UnaryMethod<Request, Response>>(
             std::move(method))](grpc::ServerCompletionQueue* queue,
                                 const std::shared_ptr<QueueGate>& gate) {
          UnaryCall<Request, Response>::Accept(method.get(), queue, gate);
        });
  }

  // A method of every server.
  template <typename S, typename Request, typename Response, typename Queue>
  void AddToAll(void (S::*ask)(grpc::ServerContext*, Request*,
                               grpc::ServerAsyncResponseWriter<Response>*,
                               grpc::CompletionQueue*, Queue*, void*),
                absl::StatusOr<Response> (Impl::*method)(
                    const grpc::ServerContext&, const Request&)) {
    Add(ask, [this, method](PendingCall<Request, Response> call) {
      Answer(&call, (this->*method)(call.context(), call.request()));
    });
  }

  // A method of the coordinator.
  template <typename S, typename Request, typename Response, typename Queue,
            typename Method>
  void AddToCoordinator(
      void (S::*ask)(grpc::ServerContext*, Request*,
                     grpc::ServerAsyncResponseWriter<Response>*,
                     grpc::CompletionQueue*, Queue*, void*),
      Method method) {
    Add(ask, [this, method](PendingCall<Request, Response> call) {
      if (absl::Status status = CheckIsCoordinator(); !status.ok()) {
        return call.Fail(status);
      }
      Answer(&call, (coordinator_->*method)(call.request()));
    });
  }

  void AddDrain() {
    Add(&v1::AdminService::AsyncService::RequestDrain,
        [this](PendingCall<v1::DrainRequest, v1::DrainResponse> call) {
          const absl::Status status = CheckIsCoordinator();
          if (!status.ok()) return call.Fail(status);
          const std::string reason = call.request().reason();
          if (checkpoint_loop_ == nullptr) {
            return Answer(&call, coordinator_->Drain(reason));
          }
          // What was trained stays; a checkpoint that fails is in the log.
          checkpoint_loop_->Make(
              [this, reason, call = std::move(call)](
                  const absl::StatusOr<v1::CheckpointResponse>&) mutable {
                Answer(&call, coordinator_->Drain(reason));
              });
        });
  }

  void AddBarrier() {
    Add(&v1::AdminService::AsyncService::RequestBarrier,
        [this](PendingCall<v1::BarrierRequest, v1::BarrierResponse> call) {
          if (absl::Status status = CheckIsCoordinator(); !status.ok()) {
            return call.Fail(status);
          }
          const v1::BarrierRequest request = call.request();
          coordinator_->Barrier(
              request, [call = std::move(call)](absl::Status status) mutable {
                Answer(&call, status);
              });
        });
  }

  void AddStepClock() {
    Add(&v1::AdminService::AsyncService::RequestStepClock,
        [this](PendingCall<v1::StepClockRequest, v1::StepClockResponse> call) {
          if (absl::Status status = CheckIsCoordinator(); !status.ok()) {
            return call.Fail(status);
          }
          const v1::StepClockRequest request = call.request();
          coordinator_->StepClock(
              request, [call = std::move(call)](
                           const absl::StatusOr<v1::StepClockResponse>&
                               response) mutable { Answer(&call, response); });
        });
  }

  void AddEvict() {
    Add(&v1::AdminService::AsyncService::RequestEvict,
        [this](PendingCall<v1::EvictRequest, v1::EvictResponse> call) {
          const v1::EvictRequest request = call.request();
          eviction_loop_->Evict(
              request,
              [call = std::move(call)](
                  const absl::StatusOr<v1::EvictResponse>& result) mutable {
                Answer(&call, result);
              });
        });
  }

  void AddCheckpoint() {
    Add(&v1::AdminService::AsyncService::RequestCheckpoint,
        [this](
            PendingCall<v1::CheckpointRequest, v1::CheckpointResponse> call) {
          if (absl::Status status = CheckIsCoordinator(); !status.ok()) {
            return call.Fail(status);
          }
          if (checkpoint_loop_ == nullptr) {
            return call.Fail(absl::FailedPreconditionError(
                "the job makes no checkpoints; start its servers with "
                "--checkpoint_dir"));
          }
          const bool best = call.request().best();
          checkpoint_loop_->Make(
              [call = std::move(call)](
                  const absl::StatusOr<v1::CheckpointResponse>& made) mutable {
                Answer(&call, made);
              },
              best);
        });
  }

  template <typename Request, typename Response>
  static void Answer(PendingCall<Request, Response>* call,
                     const absl::StatusOr<Response>& result) {
    if (!result.ok()) return call->Fail(result.status());
    call->Answer(*result);
  }
  template <typename Request, typename Response>
  static void Answer(PendingCall<Request, Response>* call,
                     const Response& response) {
    call->Answer(response);
  }
  template <typename Request, typename Response>
  static void Answer(PendingCall<Request, Response>* call,
                     const absl::Status& status) {
    if (!status.ok()) return call->Fail(status);
    call->Answer(Response());
  }

  absl::Status CheckIsCoordinator() const {
    if (coordinator_ != nullptr) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(
        "this is server ", options_.server.value(),
        ", and only the coordinator answers that; ask server 0 at ",
        options_.server_endpoints[0]));
  }
  absl::Status CheckConnect(const v1::ConnectRequest& request) const;

  absl::StatusOr<v1::ConnectResponse> Connect(
      const grpc::ServerContext& context, const v1::ConnectRequest& request);
  absl::StatusOr<v1::CreateTableResponse> CreateTable(
      const grpc::ServerContext&, const v1::CreateTableRequest& request) {
    OARLOCK_RETURN_IF_ERROR(registry_->Create(request.config()));
    return v1::CreateTableResponse();
  }
  absl::StatusOr<v1::RoundMembershipResponse> SetRoundMembership(
      const grpc::ServerContext&, const v1::RoundMembershipRequest& request) {
    v1::RoundMembershipResponse response;
    OARLOCK_ASSIGN_OR_RETURN(
        const uint64_t round,
        round_membership_->SetMember(WorkerIndex(request.worker_index()),
                                     Generation(request.worker_generation()),
                                     request.joins(), request.request()));
    response.set_round(round);
    return response;
  }
  absl::StatusOr<v1::ServerStatusResponse> GetServerStatus(
      const grpc::ServerContext&, const v1::ServerStatusRequest& request);
  absl::StatusOr<v1::HotKeysResponse> GetHotKeys(
      const grpc::ServerContext&, const v1::HotKeysRequest& request);
  absl::StatusOr<v1::ListChangesResponse> ListChanges(
      const grpc::ServerContext&, const v1::ListChangesRequest& request) {
    return registry_->ListChanges(request, options_.server_generation);
  }

  const AdminServiceOptions options_;
  const cluster::PartitionMap map_;
  TableRegistry* const registry_;
  RoundMembership* const round_membership_;
  coordinator::Coordinator* const coordinator_;
  EvictionLoop* const eviction_loop_;
  CheckpointLoop* checkpoint_loop_ = nullptr;
  uint64_t restored_cut_ = 0;
  bool lossless_ = false;
  const Clock& clock_;
  const absl::Time start_;
  v1::AdminService::AsyncService service_;
  // Each makes a queue ready for one call of its method. Written by the
  // constructor.
  std::vector<absl::AnyInvocable<void(grpc::ServerCompletionQueue*,
                                      const std::shared_ptr<QueueGate>&) const>>
      accept_;
};

absl::Status AdminService::Impl::CheckConnect(
    const v1::ConnectRequest& request) const {
  if (request.protocol_version() != cluster::kProtocolVersion) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the client speaks protocol version ", request.protocol_version(),
        ", this server ", cluster::kProtocolVersion,
        "; use servers and workers of one release"));
  }
  // Who names no job means any.
  if (!request.job_id().empty() && request.job_id() != options_.job_id) {
    return absl::FailedPreconditionError(absl::StrCat(
        "this server belongs to job '", options_.job_id,
        "', the client to "
        "job '",
        request.job_id(),
        "'; give both the same --job_id, or this job other ports"));
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::ConnectResponse> AdminService::Impl::Connect(
    const grpc::ServerContext& context, const v1::ConnectRequest& request) {
  const std::string client = request.client().substr(0, 64);
  if (absl::Status status = CheckConnect(request); !status.ok()) {
    spdlog::warn("refused {} from {}: {}", client, context.peer(),
                 std::string(status.message()));
    return status;
  }
  // People's tools, which name no job, come every few seconds.
  if (!request.job_id().empty()) {
    spdlog::info("{} connected from {}", client, context.peer());
  }
  v1::ConnectResponse response;
  response.set_server_index(options_.server.value());
  response.set_server_generation(options_.server_generation.value());
  *response.mutable_partition_map() = map_.ToProto();
  response.set_num_workers(options_.num_workers);
  response.set_restored_cut(restored_cut_);
  response.set_lossless(lossless_);
  response.set_has_checkpoints(options_.has_checkpoints);
  return response;
}

absl::StatusOr<v1::ServerStatusResponse> AdminService::Impl::GetServerStatus(
    const grpc::ServerContext&, const v1::ServerStatusRequest& request) {
  v1::ServerStatusResponse response;
  response.set_server_index(options_.server.value());
  response.set_server_generation(options_.server_generation.value());
  for (v1::TableStatus& table :
       registry_->Describe(request.with_partitions())) {
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

absl::StatusOr<v1::HotKeysResponse> AdminService::Impl::GetHotKeys(
    const grpc::ServerContext&, const v1::HotKeysRequest& request) {
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

AdminService::AdminService(const AdminServiceOptions& options,
                           const cluster::PartitionMap& map,
                           TableRegistry* registry,
                           RoundMembership* round_membership,
                           coordinator::Coordinator* coordinator,
                           EvictionLoop* eviction_loop, const Clock& clock)
    : impl_(std::make_unique<Impl>(options, map, registry, round_membership,
                                   coordinator, eviction_loop, clock)) {}

AdminService::~AdminService() = default;

void AdminService::SetCheckpointLoop(CheckpointLoop* loop) {
  impl_->SetCheckpointLoop(loop);
}

void AdminService::SetRestored(uint64_t cut, bool lossless) {
  impl_->SetRestored(cut, lossless);
}

grpc::Service* AdminService::service() { return impl_->service(); }

CallQueues::Acceptor AdminService::Acceptor(
    std::shared_ptr<QueueGate> gate) const {
  return [this, gate = std::move(gate)](grpc::ServerCompletionQueue* queue) {
    impl_->Accept(queue, gate);
  };
}

}  // namespace oarlock::pserver
