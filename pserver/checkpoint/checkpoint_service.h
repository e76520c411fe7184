// The coordinator's calls over gRPC (proto/v1/checkpoint.proto). Every call
// must carry the job's token.

#ifndef OARLOCK_PSERVER_CHECKPOINT_CHECKPOINT_SERVICE_H_
#define OARLOCK_PSERVER_CHECKPOINT_CHECKPOINT_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "proto/v1/checkpoint.pb.h"
#include "pserver/checkpoint/server_cut.h"
#include "pserver/fencing/coordinator_term.h"
#include "pserver/rpc/call_queues.h"

namespace oarlock::pserver {

// Thread-safe. ServerCut::Stop must come before the gRPC server's shutdown, so
// that no call is held open.
class CheckpointService {
 public:
  using RollBack = std::function<absl::StatusOr<v1::RollBackResponse>(
      const v1::RollBackRequest&)>;

  // Orders of a term below `term` are FailedPrecondition, and so are those
  // about cuts where `cuts` is null: this server makes none. Both outlive this.
  // Empty `token`: none is demanded.
  CheckpointService(ServerCut* cuts, RollBack roll_back,
                    const CoordinatorTerm* term, const std::string& token);
  ~CheckpointService();

  CheckpointService(const CheckpointService&) = delete;
  CheckpointService& operator=(const CheckpointService&) = delete;

  // What to register with the builder.
  grpc::Service* service();
  // For CallQueues::Start; the service must outlive the queues' threads.
  CallQueues::Acceptor Acceptor(std::shared_ptr<QueueGate> gate) const;

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_CHECKPOINT_CHECKPOINT_SERVICE_H_
