#include "launch/node_rendezvous_server.h"

#include <utility>

#include "absl/memory/memory.h"
#include "base/status_macros.h"
#include "cluster/retry.h"

namespace oarlock::launch {
namespace {

// For responses that are under way when the server ends.
constexpr absl::Duration kLastResponses = absl::Milliseconds(500);

}  // namespace

grpc::Status NodeRendezvousServer::Service::Report(
    grpc::ServerContext* context, const v1::NodeReport* report,
    v1::NodeReportResponse* response) {
  if (absl::Status status = cluster::CheckToken(*context, token_);
      !status.ok()) {
    return cluster::ToGrpc(status);
  }
  absl::StatusOr<v1::NodeReportResponse> result = rendezvous_->Report(*report);
  if (!result.ok()) return cluster::ToGrpc(result.status());
  *response = *std::move(result);
  return grpc::Status::OK;
}

NodeRendezvousServer::NodeRendezvousServer(
    const NodeRendezvous::Options& options, std::string token,
    const Clock& clock)
    : heartbeat_timeout_(options.heartbeat_timeout),
      rendezvous_(options, clock),
      service_(&rendezvous_, std::move(token)) {}

absl::StatusOr<std::unique_ptr<NodeRendezvousServer>>
NodeRendezvousServer::Start(NodeRendezvous::Options options,
                            const cluster::SecurityOptions& security,
                            const Clock& clock) {
  OARLOCK_ASSIGN_OR_RETURN(std::string token, cluster::ReadToken(security));
  auto self = absl::WrapUnique(
      new NodeRendezvousServer(options, std::move(token), clock));
  OARLOCK_ASSIGN_OR_RETURN(
      self->server_,
      cluster::Serve(options.endpoint, security,
                     "node 0 cannot let the others meet at --master",
                     &self->service_));
  self->ticker_.emplace(
      clock, options.heartbeat_timeout / kHeartbeatsPerTimeout,
      [rendezvous = &self->rendezvous_] { rendezvous->Tick(); });
  return self;
}

NodeRendezvousServer::~NodeRendezvousServer() {
  if (server_ == nullptr) return;
  rendezvous_.AwaitAllNotified(heartbeat_timeout_);
  ticker_.reset();
  server_->Shutdown(kLastResponses);
}

}  // namespace oarlock::launch
