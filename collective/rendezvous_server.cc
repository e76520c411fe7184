#include "collective/rendezvous_server.h"

#include <utility>

#include "absl/memory/memory.h"
#include "absl/synchronization/mutex.h"
#include "base/status_macros.h"
#include "cluster/retry.h"

namespace oarlock::collective {
namespace {

class StreamMemberConnection : public MemberConnection {
 public:
  using Stream = grpc::ServerReaderWriter<v1::GroupMessage, v1::MemberMessage>;

  StreamMemberConnection(grpc::ServerContext* context, Stream* stream)
      : context_(context), stream_(stream) {}

  // Some bytes a second to a rank that is dropped when it has been silent for
  // `heartbeat_timeout`: they always fit into the connection's buffers.
  void Send(const v1::GroupMessage& message) override {
    absl::MutexLock lock(&mutex_);
    stream_->Write(message);
  }
  void Close() override { context_->TryCancel(); }

 private:
  grpc::ServerContext* const context_;
  absl::Mutex mutex_;
  Stream* const stream_;
};

}  // namespace

grpc::Status RendezvousServer::Service::Join(
    grpc::ServerContext* context,
    grpc::ServerReaderWriter<v1::GroupMessage, v1::MemberMessage>* stream) {
  if (absl::Status status = cluster::CheckToken(*context, token_);
      !status.ok()) {
    return cluster::ToGrpc(status);
  }
  v1::MemberMessage message;
  if (!stream->Read(&message) || !message.has_hello()) {
    return cluster::ToGrpc(absl::InvalidArgumentError(
        "a stream of Join has to begin with a JoinHello"));
  }
  StreamMemberConnection connection(context, stream);
  const int rank = static_cast<int>(message.hello().rank());
  absl::Status status = group_state_->Enter(message.hello(), &connection);
  if (!status.ok()) return cluster::ToGrpc(status);
  while (stream->Read(&message))
    group_state_->OnMessage(rank, &connection, message);
  group_state_->Closed(rank, &connection);
  return grpc::Status::OK;
}

RendezvousServer::RendezvousServer(GroupState::Options options,
                                   std::string token, const Clock& clock)
    : tick_(options.heartbeat_timeout / kHeartbeatsPerTimeout),
      group_state_(std::move(options), clock),
      service_(&group_state_, std::move(token)) {}

absl::StatusOr<std::unique_ptr<RendezvousServer>> RendezvousServer::Start(
    GroupState::Options options, const cluster::SecurityOptions& security,
    const Clock& clock) {
  OARLOCK_ASSIGN_OR_RETURN(std::string token, cluster::ReadToken(security));
  const std::string endpoint = options.endpoints[0];
  auto self = absl::WrapUnique(
      new RendezvousServer(std::move(options), std::move(token), clock));
  OARLOCK_ASSIGN_OR_RETURN(
      self->server_,
      cluster::Serve(endpoint, security,
                     "rank 0 cannot serve the rendezvous at", &self->service_));
  self->ticker_.emplace(
      clock, self->tick_,
      [group_state = &self->group_state_] { group_state->Tick(); });
  return self;
}

RendezvousServer::~RendezvousServer() {
  if (server_ == nullptr) return;
  group_state_.AwaitEmpty(kShutdownGrace);
  ticker_.reset();
  // No time is left: ends the calls that are still there.
  server_->Shutdown(absl::ZeroDuration());
}

}  // namespace oarlock::collective
