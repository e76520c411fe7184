// The rendezvous that rank 0 serves in its own process.

#ifndef OARLOCK_COLLECTIVE_RENDEZVOUS_SERVER_H_
#define OARLOCK_COLLECTIVE_RENDEZVOUS_SERVER_H_

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
#include "collective/group_state.h"
#include "proto/v1/collective.grpc.pb.h"

namespace oarlock::collective {

class RendezvousServer {
 public:
  // Listens at the first endpoint of `options`. FailedPrecondition: it may not
  // (CheckServable) or cannot. `clock` outlives it.
  static absl::StatusOr<std::unique_ptr<RendezvousServer>> Start(
      GroupState::Options options, const cluster::SecurityOptions& security,
      const Clock& clock);
  // Gives the others kShutdownGrace to hear the last word.
  ~RendezvousServer();

  RendezvousServer(const RendezvousServer&) = delete;
  RendezvousServer& operator=(const RendezvousServer&) = delete;

 private:
  static constexpr absl::Duration kShutdownGrace = absl::Seconds(1);

  // A thread of gRPC's for each rank.
  class Service final : public v1::RendezvousService::Service {
   public:
    Service(GroupState* group_state, std::string token)
        : group_state_(group_state), token_(std::move(token)) {}
    grpc::Status Join(
        grpc::ServerContext* context,
        grpc::ServerReaderWriter<v1::GroupMessage, v1::MemberMessage>* stream)
        override;

   private:
    GroupState* const group_state_;
    const std::string token_;
  };

  RendezvousServer(GroupState::Options options, std::string token,
                   const Clock& clock);

  const absl::Duration tick_;
  GroupState group_state_;
  Service service_;
  std::unique_ptr<cluster::ServedService> server_;
  std::optional<Ticker> ticker_;
};

}  // namespace oarlock::collective

#endif  // OARLOCK_COLLECTIVE_RENDEZVOUS_SERVER_H_
