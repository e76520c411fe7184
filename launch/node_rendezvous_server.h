// The rendezvous as node 0's launcher serves it at --master.

#ifndef OARLOCK_LAUNCH_NODE_RENDEZVOUS_SERVER_H_
#define OARLOCK_LAUNCH_NODE_RENDEZVOUS_SERVER_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/ticker.h"
#include "cluster/security.h"
#include "cluster/serve.h"
#include "launch/node_rendezvous.h"
#include "proto/v1/launch.grpc.pb.h"

namespace oarlock::launch {

class NodeRendezvousServer {
 public:
  // Listens at `options.endpoint`. FailedPrecondition: it may not
  // (CheckServable), or cannot, and why. `clock` outlives it.
  static absl::StatusOr<std::unique_ptr<NodeRendezvousServer>> Start(
      NodeRendezvous::Options options, const cluster::SecurityOptions& security,
      const Clock& clock);
  // Gives the others `heartbeat_timeout` to hear how the job ended.
  ~NodeRendezvousServer();

  NodeRendezvousServer(const NodeRendezvousServer&) = delete;
  NodeRendezvousServer& operator=(const NodeRendezvousServer&) = delete;

 private:
  class Service final : public v1::LaunchService::Service {
   public:
    Service(NodeRendezvous* rendezvous, std::string token)
        : rendezvous_(rendezvous), token_(std::move(token)) {}
    grpc::Status Report(grpc::ServerContext* context,
                        const v1::NodeReport* report,
                        v1::NodeReportResponse* response) override;

   private:
    NodeRendezvous* const rendezvous_;
    const std::string token_;
  };

  NodeRendezvousServer(const NodeRendezvous::Options& options,
                       std::string token, const Clock& clock);

  const absl::Duration heartbeat_timeout_;
  NodeRendezvous rendezvous_;
  Service service_;
  std::unique_ptr<cluster::ServedService> server_;
  std::optional<Ticker> ticker_;
};

}  // namespace oarlock::launch

#endif  // OARLOCK_LAUNCH_NODE_RENDEZVOUS_SERVER_H_
