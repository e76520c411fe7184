#include "pserver/server.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/listen_check.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "cluster/partition_map.h"
#include "cluster/retry.h"
#include "cluster/security.h"
#include "cluster/wire_version.h"
#include "coordinator/coordinator.h"
#include "coordinator/job_metrics.h"
#include "coordinator/log/log_compatibility.h"
#include "proto/v1/admin.grpc.pb.h"
#include "proto/v1/parameter.grpc.pb.h"
#include "pserver/checkpoint/checkpoint_metrics.h"
#include "pserver/checkpoint/cut_gate.h"
#include "pserver/checkpoint/server_checkpoints.h"
#include "pserver/fencing/control_loop.h"
#include "pserver/fencing/ledger_reporter.h"
#include "pserver/fencing/push_ledger.h"
#include "pserver/fencing/round_membership.h"
#include "pserver/fencing/worker_fences.h"
#include "pserver/rpc/call_queues.h"
#include "pserver/service/admin_service.h"
#include "pserver/service/health_service.h"
#include "pserver/service/parameter_service.h"
#include "pserver/service/reflection_service.h"
#include "pserver/service/unknown_calls.h"
#include "pserver/table/eviction_loop.h"
#include "pserver/table/table_metrics.h"
#include "pserver/table/table_registry.h"

namespace oarlock::pserver {
namespace {

constexpr Metric kInfo = {
    MetricKind::kGauge, "oarlock_server_info", "info",
    "job, server, generation",
    "1; its labels say which job, server and generation this is."};
constexpr Metric kUptime = {MetricKind::kGauge, "oarlock_server_uptime_seconds",
                            "seconds", "", "Since the server started."};

// Full names of what a server offers.
std::vector<std::string> ServiceNames() {
  return {v1::ParameterService::service_full_name(),
          v1::AdminService::service_full_name(),
          grpc::health::v1::Health::service_full_name(),
          grpc::reflection::v1alpha::ServerReflection::service_full_name()};
}

coordinator::CoordinatorOptions MakeCoordinatorOptions(
    const ServerOptions& options) {
  coordinator::CoordinatorOptions result;
  result.job_id = options.job_id;
  result.num_workers = options.num_workers;
  result.num_servers = options.server_endpoints.size();
  result.lease = options.lease;
  result.restart_grace = options.restart_grace;
  result.start_timeout = options.start_timeout;
  result.drain_grace = options.drain_grace;
  result.tick = options.tick;
  return result;
}

AdminServiceOptions MakeAdminServiceOptions(const ServerOptions& options,
                                            Generation generation,
                                            const std::string& token) {
  AdminServiceOptions result;
  result.server = ServerIndex(options.server_index);
  result.server_generation = generation;
  result.job_id = options.job_id;
  result.num_workers = options.num_workers;
  result.server_endpoints = options.server_endpoints;
  result.token = token;
  result.has_checkpoints = !options.checkpoint_dir.empty();
  return result;
}

ParameterServiceOptions MakeParameterServiceOptions(
    const ServerOptions& options, Generation generation,
    const std::string& token) {
  ParameterServiceOptions result;
  result.server = ServerIndex(options.server_index);
  result.job_hash = cluster::JobHash(options.job_id);
  result.server_generation = generation;
  result.token = token;
  result.max_open_calls = options.max_open_calls;
  return result;
}

ControlLoopOptions MakeControlLoopOptions(const ServerOptions& options,
                                          Generation generation,
                                          const std::string& token) {
  ControlLoopOptions result;
  result.server = ServerIndex(options.server_index);
  result.server_generation = generation;
  result.job_id = options.job_id;
  result.num_workers = options.num_workers;
  result.coordinator_endpoint = options.server_endpoints[0];
  result.token = token;
  result.lease = options.lease;
  result.start_timeout = options.start_timeout;
  result.coordinator_timeout = options.coordinator_timeout;
  result.deadline_interval = options.deadline_interval;
  result.heartbeat_interval = options.heartbeat_interval;
  result.heartbeat_call_timeout = options.heartbeat_call_timeout;
  return result;
}

}  // namespace

class Server::Impl {
 public:
  Impl(const ServerOptions& options,
       const coordinator::ReplayDecision& decision, const std::string& token,
       std::shared_ptr<grpc::Channel> coordinator_channel)
      : options_(options),
        decision_(decision),
        start_(options.clocks.monotonic->Now()),
        generation_(std::max<int64_t>(
            1, absl::ToUnixMillis(options.clocks.wall->Now()))),
        map_(cluster::PartitionMap::Even(options.num_partitions,
                                         options.server_endpoints.size())),
        fences_(std::max(options.num_workers, decision.num_workers),
                WorkerFences::Start::kAfterFirstUpdate),
        push_ledger_(&fences_),
        registry_(map_, ServerIndex(options.server_index),
                  *options.clocks.monotonic, options.tier_dir, generation_),
        round_membership_(&fences_, &registry_),
        ledger_reporter_(&push_ledger_, &registry_),
        coordinator_(
            options.server_index == 0
                ? std::make_unique<coordinator::Coordinator>(
                      MakeCoordinatorOptions(options), *options.clocks.wall)
                : nullptr),
        eviction_loop_(&registry_, *options.clocks.monotonic),
        admin_service_(MakeAdminServiceOptions(options, generation_, token),
                       map_, &registry_, &round_membership_, coordinator_.get(),
                       &eviction_loop_, *options.clocks.monotonic),
        parameter_service_(
            MakeParameterServiceOptions(options, generation_, token),
            &registry_, &push_ledger_, map_, *options.clocks.monotonic,
            &cut_gate_),
        health_service_(ServiceNames()),
        reflection_service_(ServiceNames()),
        unknown_calls_(token),
        queues_(options.NumThreads()),
        control_loop_(MakeControlLoopOptions(options, generation_, token), map_,
                      coordinator_.get(), std::move(coordinator_channel),
                      &round_membership_, &registry_.clock(), &ledger_reporter_,
                      *options.clocks.monotonic) {
    control_loop_.SetCutObserver([this](uint64_t finished, bool cuts_wait) {
      cut_gate_.Finish(finished);
      if (checkpoints_ != nullptr && checkpoints_->log() != nullptr) {
        checkpoints_->log()->SetCutsWait(cuts_wait);
      }
    });
    control_loop_.SetCheckpointDue([this] {
      return checkpoints_ != nullptr && checkpoints_->log() != nullptr &&
             checkpoints_->log()->over_limit();
    });
  }

  // Goes on from a checkpoint, or begins with one's parameters.
  absl::Status Restore(const std::string& token);
  absl::Status Listen(std::shared_ptr<grpc::ServerCredentials> credentials);
  absl::Status Serve();
  absl::Status Wait() {
    const absl::Status outcome = control_loop_.Wait();
    return asked_to_stop_ ? absl::OkStatus() : outcome;
  }
  void CollectMetrics(MetricsSnapshot* snapshot) const;
  void Shutdown() ABSL_LOCKS_EXCLUDED(shutdown_mutex_);

  int port() const { return port_; }
  std::string endpoint() const {
    const std::string& listen = options_.listen_endpoint();
    return absl::StrCat(listen.substr(0, listen.rfind(':')), ":", port_);
  }
  Generation generation() const { return generation_; }

 private:
  const ServerOptions options_;
  const coordinator::ReplayDecision decision_;
  const absl::Time start_;
  const Generation generation_;
  const cluster::PartitionMap map_;
  WorkerFences fences_;
  // Outlives all that may hold a push.
  PushLedger push_ledger_;
  TableRegistry registry_;
  RoundMembership round_membership_;
  LedgerReporter ledger_reporter_;
  const std::unique_ptr<coordinator::Coordinator>
      coordinator_;  // null but on server 0
  EvictionLoop eviction_loop_;
  CutGate cut_gate_;
  // Null without checkpoints.
  std::unique_ptr<ServerCheckpoints> checkpoints_;
  AdminService admin_service_;
  ParameterService parameter_service_;
  HealthService health_service_;
  ReflectionService reflection_service_;
  UnknownCalls unknown_calls_;
  // Its threads serve all of them.
  CallQueues queues_;
  ControlLoop control_loop_;

  // Set once while it starts.
  std::unique_ptr<grpc::Server> grpc_server_;
  int port_ = 0;

  std::atomic<bool> asked_to_stop_{false};
  absl::Mutex shutdown_mutex_;
  bool shut_down_ ABSL_GUARDED_BY(shutdown_mutex_) = false;
};

namespace {

// On one side of every cut, and in the log first.
absl::Status EvictAndLog(const PartitionEviction& what,
                         absl::FunctionRef<absl::Status()> evict,
                         ServerLog* log, CutGate* gate) {
  absl::Status outcome;
  gate->Pass(/*cut=*/0, [&](const absl::Status&) {
    outcome = log->AppendEviction(what);
    if (outcome.ok()) outcome = evict();
  });
  return outcome;
}

}  // namespace

absl::Status Server::Impl::Restore(const std::string& token) {
  if (options_.checkpoint_dir.empty()) {
    return options_.load.empty()
               ? absl::OkStatus()
               : LoadParameters(options_.load,
                                ServerIndex(options_.server_index), map_,
                                *options_.clocks.monotonic, &registry_);
  }
  OARLOCK_ASSIGN_OR_RETURN(
      checkpoints_,
      ServerCheckpoints::Create(options_, decision_, token, &map_, &registry_,
                                &push_ledger_, coordinator_.get(), &cut_gate_));
  admin_service_.SetRestored(cut_gate_.finished(), checkpoints_->lossless());
  parameter_service_.SetLog(checkpoints_->log());
  if (ServerLog* const log = checkpoints_->log()) {
    eviction_loop_.SetStep(
        [this, log](const PartitionEviction& what,
                    absl::FunctionRef<absl::Status()> evict) {
          return EvictAndLog(what, evict, log, &cut_gate_);
        });
  }
  return absl::OkStatus();
}

absl::Status Server::Impl::Listen(
    std::shared_ptr<grpc::ServerCredentials> credentials) {
  const std::string& endpoint = options_.listen_endpoint();
  OARLOCK_RETURN_IF_ERROR(CheckCanListen(endpoint));
  grpc::ServerBuilder builder;
  cluster::ApplyServerArguments(&builder);
  builder.AddListeningPort(endpoint, std::move(credentials), &port_);
  builder.RegisterService(parameter_service_.service());
  builder.RegisterService(admin_service_.service());
  builder.RegisterService(health_service_.service());
  builder.RegisterService(reflection_service_.service());
  builder.RegisterAsyncGenericService(unknown_calls_.service());
  if (checkpoints_ != nullptr) {
    builder.RegisterService(checkpoints_->service());
  }
  queues_.AddTo(&builder);
  grpc_server_ = builder.BuildAndStart();
  if (grpc_server_ == nullptr || port_ == 0) {
    // Somebody may have taken the port since it was looked at.
    OARLOCK_RETURN_IF_ERROR(CheckCanListen(endpoint));
    return absl::FailedPreconditionError(absl::StrCat(
        "cannot listen on ", endpoint, "; gRPC's lines above say why"));
  }
  return absl::OkStatus();
}

absl::Status Server::Impl::Serve() {
  std::vector<CallQueues::Acceptor> acceptors = {
      parameter_service_.Acceptor(queues_.gate()),
      admin_service_.Acceptor(queues_.gate()),
      health_service_.Acceptor(queues_.gate()),
      reflection_service_.Acceptor(queues_.gate()),
      unknown_calls_.Acceptor(queues_.gate())};
  if (checkpoints_ != nullptr) {
    acceptors.push_back(checkpoints_->Acceptor(queues_.gate()));
    OARLOCK_RETURN_IF_ERROR(checkpoints_->Start(endpoint()));
    admin_service_.SetCheckpointLoop(checkpoints_->loop());
  }
  queues_.Start(acceptors);
  eviction_loop_.Start();
  control_loop_.Start();
  spdlog::info("server {} of {} serves job '{}' on {}, generation {}",
               options_.server_index, options_.server_endpoints.size(),
               options_.job_id, endpoint(), generation_.value());
  return absl::OkStatus();
}

void Server::Impl::CollectMetrics(MetricsSnapshot* snapshot) const {
  snapshot->Add(kInfo, 1,
                {{"job", options_.job_id},
                 {"server", absl::StrCat(options_.server_index)},
                 {"generation", absl::StrCat(generation_.value())}});
  snapshot->Add(kUptime, absl::ToDoubleSeconds(
                             options_.clocks.monotonic->Now() - start_));
  parameter_service_.CollectMetrics(snapshot);
  CollectTableMetrics(registry_, snapshot);
  if (coordinator_ != nullptr)
    coordinator::CollectJobMetrics(*coordinator_, snapshot);
  if (checkpoints_ != nullptr) {
    CollectCheckpointMetrics(*checkpoints_, snapshot);
  }
}

void Server::Impl::Shutdown() {
  asked_to_stop_ = true;
  absl::MutexLock lock(&shutdown_mutex_);
  if (std::exchange(shut_down_, true)) return;
  if (grpc_server_ == nullptr) return;  // Never came up.
  health_service_.SetServing(false);
  if (coordinator_ != nullptr) {
    coordinator_->Stop(
        "server 0, the coordinator, was asked to stop before the job was over");
    // The loop ends when workers and servers know, or did not ask in time.
    control_loop_.WaitFor(options_.drain_grace + ControlLoop::kLinger +
                          options_.deadline_interval * 10);
  }
  control_loop_.Stop();
  if (checkpoints_ != nullptr) checkpoints_->Stop();
  cut_gate_.Shutdown();
  eviction_loop_.Stop();
  registry_.Shutdown();
  if (coordinator_ != nullptr) coordinator_->Shutdown();
  grpc_server_->Shutdown(GrpcDeadline(kCallGrace));
  queues_.Shutdown();
  spdlog::info("server {} has shut down", options_.server_index);
}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(
    const ServerOptions& options) {
  OARLOCK_RETURN_IF_ERROR(options.Validate());
  OARLOCK_RETURN_IF_ERROR(
      cluster::CheckServable(options.listen_endpoint(), options.security));
  OARLOCK_ASSIGN_OR_RETURN(const std::string token,
                           cluster::ReadToken(options.security));
  OARLOCK_ASSIGN_OR_RETURN(std::shared_ptr<grpc::ServerCredentials> credentials,
                           cluster::MakeServerCredentials(options.security));
  std::shared_ptr<grpc::Channel> channel;
  if (options.server_index != 0) {
    OARLOCK_ASSIGN_OR_RETURN(
        std::shared_ptr<grpc::ChannelCredentials> channel_credentials,
        cluster::MakeChannelCredentials(options.security));
    channel = grpc::CreateCustomChannel(options.server_endpoints[0],
                                        channel_credentials,
                                        cluster::MakeChannelArguments());
  }
  OARLOCK_ASSIGN_OR_RETURN(const coordinator::ReplayDecision decision,
                           DecideReplayOf(options));
  auto impl =
      std::make_unique<Impl>(options, decision, token, std::move(channel));
  OARLOCK_RETURN_IF_ERROR(impl->Restore(token));
  OARLOCK_RETURN_IF_ERROR(impl->Listen(std::move(credentials)));
  OARLOCK_RETURN_IF_ERROR(impl->Serve());
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() { Shutdown(); }
int Server::port() const { return impl_->port(); }
std::string Server::endpoint() const { return impl_->endpoint(); }
Generation Server::generation() const { return impl_->generation(); }
absl::Status Server::Wait() { return impl_->Wait(); }
void Server::CollectMetrics(MetricsSnapshot* snapshot) const {
  impl_->CollectMetrics(snapshot);
}
void Server::Shutdown() { impl_->Shutdown(); }

std::vector<const Metric*> ServerMetrics() {
  std::vector<const Metric*> metrics = {&kInfo, &kUptime};
  for (const Metric* metric : ParameterServiceMetrics()) {
    metrics.push_back(metric);
  }
  for (const MetricList& list :
       {TableMetricsList(), coordinator::JobMetricsList(),
        CheckpointMetricsList()}) {
    metrics.insert(metrics.end(), list.begin(), list.end());
  }
  return metrics;
}

}  // namespace oarlock::pserver
