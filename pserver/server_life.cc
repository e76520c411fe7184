#include "pserver/server_life.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/process/descriptor_limit.h"
#include "base/status_macros.h"
#include "cluster/listener.h"
#include "cluster/security.h"
#include "cluster/wire_version.h"
#include "coordinator/job_metrics.h"
#include "coordinator/log/log_compatibility.h"
#include "proto/v1/coordinator_service.grpc.pb.h"
#include "proto/v1/parameter.grpc.pb.h"
#include "proto/v1/server_admin_service.grpc.pb.h"
#include "pserver/checkpoint/checkpoint_metrics.h"
#include "pserver/checkpoint/logged_evictions.h"
#include "pserver/fencing/control_loop.h"
#include "pserver/rpc/call_queues.h"
#include "pserver/server_state.h"
#include "pserver/service/coordinator_service.h"
#include "pserver/service/health_service.h"
#include "pserver/service/parameter_service.h"
#include "pserver/service/reflection_service.h"
#include "pserver/service/server_admin_service.h"
#include "pserver/service/unknown_calls.h"
#include "pserver/table/eviction_loop.h"
#include "pserver/table/table_metrics.h"

namespace oarlock::pserver {
namespace {

constexpr Metric kInfo = {
    MetricKind::kGauge, "oarlock_server_info", "info",
    "job, server, generation",
    "1; its labels say which job, server and generation this is."};
constexpr Metric kUptime = {MetricKind::kGauge, "oarlock_server_uptime_seconds",
                            "seconds", "", "Since the server started."};

// Full names of what a server offers.
std::vector<std::string> ServiceNames(const ServerOptions& options) {
  std::vector<std::string> names = {
      v1::ParameterService::service_full_name(),
      v1::ServerAdminService::service_full_name(),
      grpc::health::v1::Health::service_full_name(),
      grpc::reflection::v1alpha::ServerReflection::service_full_name()};
  if (options.server_index == 0) {
    names.push_back(v1::CoordinatorService::service_full_name());
  }
  return names;
}

ServerAdminOptions MakeServerAdminOptions(const ServerOptions& options,
                                          const ServerState& state,
                                          const std::string& token) {
  ServerAdminOptions result;
  result.server = ServerIndex(options.server_index);
  result.server_generation = state.generation;
  result.job_id = options.job_id;
  result.num_workers = options.num_workers;
  result.stay = options.stay;
  result.server_endpoints = options.server_endpoints;
  result.token = token;
  if (state.checkpoints != nullptr) {
    result.has_checkpoints = true;
    result.restored_cut = state.cut_gate.finished();
    result.lossless = state.checkpoints->lossless();
    if (state.checkpoints->log_may_lack_its_end()) {
      result.log_may_lack_its_end = true;
      result.replayed = state.checkpoints->log()->replayed_of_workers();
    }
    result.checkpoint_dir = options.checkpoint_dir;
    result.checkpoint_mark = state.checkpoints->mark();
  }
  return result;
}

UnknownCallsOptions MakeUnknownCallsOptions(const ServerOptions& options,
                                            const std::string& token) {
  UnknownCallsOptions result;
  result.server = ServerIndex(options.server_index);
  result.coordinator_endpoint = options.server_endpoints[0];
  result.token = token;
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
  result.max_response_bytes = options.max_response_bytes;
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
  result.checkpoint_dir = options.checkpoint_dir;
  return result;
}

// Files of tables, logs and checkpoints, and connections of who looks at it.
constexpr uint64_t kOtherDescriptors = 512;

uint64_t DescriptorsOf(const ServerOptions& options) {
  const size_t servers =
      options.server_index == 0 ? options.server_endpoints.size() : 1;
  return options.num_workers + servers + kOtherDescriptors;
}

}  // namespace

ServerLife::ServerLife(const ServerOptions& options,
                       std::unique_ptr<ServerState> state,
                       const std::string& token,
                       std::shared_ptr<grpc::Channel> coordinator_channel)
    : options_(options),
      start_(options.clocks.monotonic->Now()),
      state_(std::move(state)),
      eviction_loop_(
          &state_->registry,
          LogEvictions(&state_->registry, state_->log(), &state_->cut_gate),
          *options.clocks.monotonic),
      server_admin_service_(MakeServerAdminOptions(options, *state_, token),
                            state_->map, &state_->registry,
                            &state_->round_membership, &eviction_loop_,
                            *options.clocks.monotonic),
      coordinator_service_(
          state_->coordinator == nullptr
              ? nullptr
              : std::make_unique<CoordinatorService>(
                    state_->coordinator.get(), &state_->round_membership,
                    state_->checkpoints.get(),
                    options.stay ? 0 : options.num_workers, token)),
      parameter_service_(
          MakeParameterServiceOptions(options, state_->generation, token),
          &state_->registry, &state_->push_ledger, &state_->hold_budget,
          state_->map, *options.clocks.monotonic, &state_->cut_gate,
          state_->log()),
      health_service_(ServiceNames(options)),
      reflection_service_(ServiceNames(options), token),
      unknown_calls_(MakeUnknownCallsOptions(options, token)),
      checkpoint_service_(state_->checkpoints == nullptr && !options.stay
                              ? nullptr
                              : std::make_unique<CheckpointService>(
                                    state_->checkpoints == nullptr
                                        ? nullptr
                                        : state_->checkpoints->mutable_cuts(),
                                    [this](const v1::RollBackRequest& request) {
                                      return RollBack(request);
                                    },
                                    &state_->term, token)),
      queues_(options.NumThreads()),
      control_loop_(
          MakeControlLoopOptions(options, state_->generation, token),
          state_->map, state_->coordinator.get(),
          std::move(coordinator_channel), &state_->term,
          &state_->round_membership, &state_->registry.clock(),
          &state_->ledger_reporter,
          [state = state_.get()](uint64_t opened, uint64_t finished,
                                 bool cuts_wait) {
            state->cut_gate.Expect(opened);
            state->cut_gate.Finish(finished);
            if (ServerLog* log = state->log()) log->SetCutsWait(cuts_wait);
          },
          [state = state_.get()] {
            return state->log() != nullptr && state->log()->over_limit();
          },
          *options.clocks.monotonic) {}

std::string ServerLife::endpoint() const {
  const std::string& listen = options_.listen_endpoint();
  return absl::StrCat(listen.substr(0, listen.rfind(':')), ":", port());
}

absl::Status ServerLife::Wait() {
  const absl::Status outcome = control_loop_.Wait();
  return asked_to_stop_ ? absl::OkStatus() : outcome;
}

absl::StatusOr<v1::RollBackResponse> ServerLife::RollBack(
    const v1::RollBackRequest& request) {
  if (!options_.stay || state_->coordinator != nullptr) {
    return absl::FailedPreconditionError(
        state_->coordinator != nullptr
            ? "server 0 goes back by itself"
            : "the servers of a job that ends with its workers do not go back "
              "in place; start them again with --resume");
  }
  v1::RollBackResponse response;
  response.set_server_generation(generation().value());
  response.set_gone_back(options_.roll_back.has_value() &&
                         options_.roll_back->generation.value() ==
                             request.generation());
  // It has gone back, or has begun later than who orders it knows.
  if (request.generation() <= generation().value()) return response;
  {
    absl::MutexLock lock(&roll_back_mutex_);
    if (!roll_back_.has_value()) roll_back_ = request;
  }
  control_loop_.EndForRollBack();
  return absl::UnavailableError(absl::StrCat("server ", options_.server_index,
                                             " goes back to cut ",
                                             request.cut(), "; call again"));
}

std::optional<RollBackOptions> ServerLife::NextLife() const {
  if (asked_to_stop_) return std::nullopt;
  RollBackOptions next;
  next.generation = generation();
  {
    absl::MutexLock lock(&roll_back_mutex_);
    if (roll_back_.has_value()) {
      next.directory = roll_back_->directory();
      next.generation = Generation(roll_back_->generation());
    } else if (state_->coordinator == nullptr ||
               !state_->coordinator->rolls_back()) {
      return std::nullopt;
    }
  }
  if (state_->coordinator != nullptr) {
    next.reason = state_->coordinator->roll_back();
    next.next_run = state_->coordinator->run() + 1;
    next.generations = state_->coordinator->ServerGenerations();
  }
  for (const TableEntry* entry : state_->registry.Entries()) {
    next.tables.push_back(entry->config);
  }
  return next;
}

absl::Status ServerLife::Listen(
    std::vector<int> sockets,
    std::shared_ptr<grpc::ServerCredentials> credentials) {
  OARLOCK_ASSIGN_OR_RETURN(
      listener_, sockets.empty()
                     ? cluster::Listener::Listen(options_.listen_endpoint())
                     : cluster::Listener::Take(std::move(sockets)));
  grpc::ServerBuilder builder;
  cluster::ApplyServerArguments(&builder);
  listener_->AddTo(&builder, std::move(credentials));
  builder.RegisterService(parameter_service_.service());
  builder.RegisterService(server_admin_service_.service());
  if (coordinator_service_ != nullptr) {
    builder.RegisterService(coordinator_service_->service());
  }
  builder.RegisterService(health_service_.service());
  builder.RegisterService(reflection_service_.service());
  builder.RegisterAsyncGenericService(unknown_calls_.service());
  if (checkpoint_service_ != nullptr) {
    builder.RegisterService(checkpoint_service_->service());
  }
  queues_.AddTo(&builder);
  grpc_server_ = builder.BuildAndStart();
  if (grpc_server_ == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot serve on ", options_.listen_endpoint(),
                     "; gRPC's lines above say why"));
  }
  return absl::OkStatus();
}

absl::Status ServerLife::Serve() {
  std::vector<CallQueues::Acceptor> acceptors = {
      parameter_service_.Acceptor(queues_.gate()),
      server_admin_service_.Acceptor(queues_.gate()),
      health_service_.Acceptor(queues_.gate()),
      reflection_service_.Acceptor(queues_.gate()),
      unknown_calls_.Acceptor(queues_.gate())};
  if (coordinator_service_ != nullptr) {
    acceptors.push_back(coordinator_service_->Acceptor(queues_.gate()));
  }
  if (checkpoint_service_ != nullptr) {
    acceptors.push_back(checkpoint_service_->Acceptor(queues_.gate()));
  }
  if (state_->checkpoints != nullptr) {
    OARLOCK_RETURN_IF_ERROR(state_->checkpoints->Start(endpoint()));
  }
  // A worker that has registered a moment ago need not wait for a heartbeat.
  state_->fences.SetUnknownObserver([this] { control_loop_.Wake(); });
  queues_.Start(acceptors);
  listener_->Start();
  eviction_loop_.Start();
  control_loop_.Start();
  Log().info("server {} of {} serves job '{}' on {}, generation {}",
             options_.server_index, options_.server_endpoints.size(),
             options_.job_id, endpoint(), generation().value());
  return absl::OkStatus();
}

void ServerLife::CollectMetrics(MetricsSnapshot* snapshot) const {
  snapshot->Add(kInfo, 1,
                {{"job", options_.job_id},
                 {"server", absl::StrCat(options_.server_index)},
                 {"generation", absl::StrCat(generation().value())}});
  snapshot->Add(kUptime, absl::ToDoubleSeconds(
                             options_.clocks.monotonic->Now() - start_));
  parameter_service_.CollectMetrics(snapshot);
  CollectTableMetrics(state_->registry, snapshot);
  if (state_->coordinator != nullptr)
    coordinator::CollectJobMetrics(*state_->coordinator, snapshot);
  if (state_->checkpoints != nullptr) {
    CollectCheckpointMetrics(*state_->checkpoints, snapshot);
  }
}

void ServerLife::Shutdown() {
  absl::MutexLock lock(&shutdown_mutex_);
  if (std::exchange(shut_down_, true)) return;
  if (grpc_server_ == nullptr) return;  // Never came up.
  const bool goes_on = NextLife().has_value();
  asked_to_stop_ = true;
  health_service_.SetServing(false);
  if (state_->coordinator != nullptr && !goes_on) {
    state_->coordinator->Stop(
        "server 0, the coordinator, was asked to stop before the job was over");
    // The loop ends when workers and servers know, or did not ask in time.
    control_loop_.WaitFor(options_.drain_grace + ControlLoop::kLinger +
                          options_.deadline_interval * 10);
  }
  control_loop_.Stop();
  if (state_->checkpoints != nullptr) state_->checkpoints->Stop();
  state_->cut_gate.Shutdown();
  eviction_loop_.Stop();
  state_->registry.Shutdown();
  if (state_->coordinator != nullptr) state_->coordinator->Shutdown();
  listener_->Stop();
  grpc_server_->Shutdown(GrpcDeadline(kCallGrace));
  queues_.Shutdown();
  if (!goes_on) Log().info("server {} has shut down", options_.server_index);
}

void ServerLife::EndWithoutWorkers() {
  if (state_->coordinator != nullptr) state_->coordinator->EndWithoutWorkers();
}

absl::StatusOr<std::unique_ptr<ServerLife>> ServerLife::Begin(
    const ServerOptions& options, std::vector<int> sockets) {
  OARLOCK_RETURN_IF_ERROR(options.Validate());
  OARLOCK_RETURN_IF_ERROR(RaiseDescriptorLimit(DescriptorsOf(options)));
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
        cluster::MakeChannelCredentials(
            options.security,
            absl::MakeConstSpan(options.server_endpoints).first(1)));
    channel = grpc::CreateCustomChannel(options.server_endpoints[0],
                                        channel_credentials,
                                        cluster::MakeChannelArguments());
  }
  OARLOCK_ASSIGN_OR_RETURN(const coordinator::ReplayDecision decision,
                           DecideReplayOf(options));
  OARLOCK_ASSIGN_OR_RETURN(std::unique_ptr<ServerState> state,
                           ServerState::Create(options, decision, token));
  auto life = absl::WrapUnique(
      new ServerLife(options, std::move(state), token, std::move(channel)));
  OARLOCK_RETURN_IF_ERROR(
      life->Listen(std::move(sockets), std::move(credentials)));
  OARLOCK_RETURN_IF_ERROR(life->Serve());
  return life;
}

std::vector<const Metric*> MetricsOfLife() {
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
