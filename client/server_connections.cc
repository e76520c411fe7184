#include "client/server_connections.h"

#include <grpcpp/create_channel.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/log.h"
#include "base/mix.h"
#include "base/status_macros.h"
#include "cluster/connect.h"
#include "cluster/retry.h"
#include "cluster/wire_version.h"

namespace oarlock::client {
namespace {

// One attempt to reach a server that may not be up yet.
constexpr absl::Duration kConnectAttempt = absl::Seconds(2);
// How often waiting for a server is mentioned in the log.
constexpr absl::Duration kWaitingNotice = absl::Seconds(5);
// Who pauses notices Close within this time.
constexpr absl::Duration kCloseNotice = absl::Milliseconds(50);

absl::Status ClosedError() {
  return absl::CancelledError("the client is being closed");
}

}  // namespace

class ServerConnections::Cancellable {
 public:
  explicit Cancellable(const ServerConnections* connections)
      : connections_(connections) {
    absl::MutexLock lock(&connections_->close_mutex_);
    connections_->contexts_.insert(&context_);
    if (connections_->closed_) context_.TryCancel();
  }
  ~Cancellable() {
    absl::MutexLock lock(&connections_->close_mutex_);
    connections_->contexts_.erase(&context_);
  }

  grpc::ClientContext* get() { return &context_; }

 private:
  const ServerConnections* const connections_;
  grpc::ClientContext context_;
};

void ServerConnections::Close() const {
  absl::MutexLock lock(&close_mutex_);
  closed_ = true;
  for (grpc::ClientContext* context : contexts_) context->TryCancel();
}

absl::Status ServerConnections::Pause(absl::Duration duration) const {
  for (;;) {
    {
      absl::MutexLock lock(&close_mutex_);
      if (closed_) return ClosedError();
    }
    if (duration <= absl::ZeroDuration()) return absl::OkStatus();
    const absl::Duration slice = std::min(duration, kCloseNotice);
    clock().Sleep(slice);
    duration -= slice;
  }
}

absl::StatusOr<std::unique_ptr<ServerConnections>> ServerConnections::Connect(
    const ConnectionOptions& options) {
  OARLOCK_ASSIGN_OR_RETURN(std::unique_ptr<ServerConnections> connections,
                           Create(options));
  OARLOCK_RETURN_IF_ERROR(connections->Open());
  return connections;
}

absl::StatusOr<std::unique_ptr<ServerConnections>> ServerConnections::Create(
    const ConnectionOptions& options) {
  if (options.endpoints.empty()) {
    return absl::InvalidArgumentError(
        "the list of servers is empty; name at least one, for example "
        "127.0.0.1:6174");
  }
  // For servers "" is any job, and then another job's rows.
  if (options.job_id.empty()) {
    return absl::InvalidArgumentError(
        "the job's id is empty; give the one that its servers have");
  }
  std::unique_ptr<ServerConnections> connections(new ServerConnections);
  connections->options_ = options;
  OARLOCK_ASSIGN_OR_RETURN(connections->token_,
                           cluster::ReadToken(options.security));
  OARLOCK_ASSIGN_OR_RETURN(
      auto credentials,
      cluster::MakeChannelCredentials(options.security, options.endpoints));
  connections->job_hash_ = cluster::JobHash(options.job_id);
  for (const std::string& endpoint : options.endpoints) {
    Server server;
    server.endpoint = endpoint;
    server.channel = grpc::CreateCustomChannel(endpoint, credentials,
                                               cluster::MakeChannelArguments());
    server.admin = v1::ServerAdminService::NewStub(server.channel);
    connections->servers_.push_back(std::move(server));
  }
  connections->coordinator_ =
      v1::CoordinatorService::NewStub(connections->servers_[0].channel);
  connections->generations_ =
      std::make_unique<std::atomic<uint64_t>[]>(connections->servers_.size());
  return connections;
}

absl::Status ServerConnections::Open() {
  const absl::Time deadline = clock().Now() + options_.connect_timeout;
  for (uint32_t i = 0; i < servers_.size(); ++i) {
    OARLOCK_ASSIGN_OR_RETURN(const v1::ConnectResponse response,
                             ConnectOne(i, deadline, options_.connect_timeout));
    Adopt(ServerIndex(i), Generation(response.server_generation()));
    if (i == 0) OARLOCK_RETURN_IF_ERROR(TakeJob(response));
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::ConnectResponse> ServerConnections::ConnectOne(
    uint32_t index, absl::Time deadline, absl::Duration timeout) const {
  const Server& server = servers_[index];
  absl::StatusOr<v1::ConnectResponse> response;
  cluster::Backoff backoff(cluster::kAwayRetries, job_hash_ ^ index);
  absl::Time next_notice = clock().Now() + kWaitingNotice;
  for (;;) {
    {
      Cancellable context(this);
      PrepareToWait(context.get(),
                    std::min(kConnectAttempt, deadline - clock().Now()));
      response = cluster::Connect(server.admin.get(), options_.job_id,
                                  options_.client_name, context.get());
    }
    if (response.ok()) break;
    OARLOCK_RETURN_IF_ERROR(Pause(absl::ZeroDuration()));
    const absl::Status& status = response.status();
    const cluster::RetryAdvice advice = cluster::AdviceFor(status.code());
    if (advice != cluster::RetryAdvice::kSameCall &&
        advice != cluster::RetryAdvice::kSameCallSlower) {
      return Annotate(status, Name(ServerIndex(index)));
    }
    const absl::Time now = clock().Now();
    if (now >= deadline) {
      return absl::UnavailableError(absl::StrCat(
          "no server answered at ", server.endpoint, " within ",
          absl::FormatDuration(timeout), " (", status.message(),
          "); start server ", index, " there, or correct the list of servers"));
    }
    if (now >= next_notice) {
      Log().info("waiting for {} ({})", Name(ServerIndex(index)),
                 std::string(status.message()));
      next_notice = now + kWaitingNotice;
    }
    OARLOCK_RETURN_IF_ERROR(Pause(std::min(backoff.Next(), deadline - now)));
  }
  if (response->server_index() != index) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the process at ", server.endpoint, " is server ",
        response->server_index(), ", but it stands at place ", index,
        " of this worker's list of servers; give all processes the same list"));
  }
  return response;
}

absl::Status ServerConnections::TakeJob(const v1::ConnectResponse& response) {
  OARLOCK_ASSIGN_OR_RETURN(
      cluster::PartitionMap map,
      cluster::PartitionMap::FromProto(response.partition_map()));
  if (map.num_servers() != servers_.size()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the servers' list has ", map.num_servers(),
                     " servers, this worker's has ", servers_.size(),
                     "; give all processes the same list"));
  }
  partition_map_ = std::make_unique<cluster::PartitionMap>(std::move(map));
  num_workers_ = response.num_workers();
  has_checkpoints_ = response.has_checkpoints();
  stays_ = response.stays();
  return absl::OkStatus();
}

absl::StatusOr<v1::ConnectResponse> ServerConnections::ConnectAnew(
    ServerIndex server, absl::Duration timeout) const {
  return ConnectOne(server.value(), clock().Now() + timeout, timeout);
}

void ServerConnections::SetReturnListener(ReturnListener listener) const {
  absl::MutexLock lock(&listener_mutex_);
  listener_ = std::move(listener);
}

absl::Status ServerConnections::TellReturn(ServerIndex server) const {
  absl::MutexLock lock(&listener_mutex_);
  return listener_ ? listener_(server) : absl::OkStatus();
}

void ServerConnections::PrepareToWait(grpc::ClientContext* context,
                                      absl::Duration timeout) const {
  Prepare(context, timeout);
  context->set_wait_for_ready(true);
}

void ServerConnections::Prepare(grpc::ClientContext* context,
                                absl::Duration timeout) const {
  context->set_deadline(GrpcDeadline(timeout));
  if (!token_.empty()) context->AddMetadata(cluster::kTokenMetadataKey, token_);
}

absl::Status ServerConnections::CallWithRetries(
    ServerIndex server, absl::Duration give_up_after,
    absl::FunctionRef<grpc::Status(grpc::ClientContext*)> call) const {
  const absl::Time give_up = clock().Now() + give_up_after;
  cluster::Backoff backoff(cluster::kAwayRetries, job_hash_ ^ server.value());
  for (;;) {
    absl::Status status;
    {
      Cancellable context(this);
      PrepareToWait(context.get(),
                    std::min(options_.rpc_timeout, give_up - clock().Now()));
      status = cluster::FromGrpc(call(context.get()));
    }
    if (status.ok()) return status;
    OARLOCK_RETURN_IF_ERROR(Pause(absl::ZeroDuration()));
    const cluster::RetryAdvice advice = cluster::AdviceFor(status.code());
    const bool may_help = advice == cluster::RetryAdvice::kSameCall ||
                          advice == cluster::RetryAdvice::kSameCallSlower;
    if (!may_help) return Annotate(status, Name(server));
    if (clock().Now() >= give_up) {
      return absl::UnavailableError(
          absl::StrCat(Name(server), " did not answer within ",
                       absl::FormatDuration(give_up_after), " (",
                       status.message(), "); is it running?"));
    }
    OARLOCK_RETURN_IF_ERROR(Pause(backoff.Next()));
  }
}

void ServerConnections::RunThread(absl::FunctionRef<void()> body) const {
  if (options_.on_broken == nullptr) return body();
  try {
    body();
  } catch (const std::exception& failure) {
    options_.on_broken(failure.what());
  }
}

std::string ServerConnections::Name(ServerIndex server) const {
  return absl::StrCat("server ", server.value(), " at ",
                      servers_[server.value()].endpoint);
}

}  // namespace oarlock::client
