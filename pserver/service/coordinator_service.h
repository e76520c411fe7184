// CoordinatorService over gRPC: the calls that server 0 answers for the whole
// job (proto/v1/coordinator_service.proto). It refuses what this version of the
// protocol reserves; all else is up to the coordinator and the checkpoint loop.

#ifndef OARLOCK_PSERVER_SERVICE_COORDINATOR_SERVICE_H_
#define OARLOCK_PSERVER_SERVICE_COORDINATOR_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "coordinator/coordinator.h"
#include "proto/v1/coordinator_workers.pb.h"
#include "pserver/checkpoint/server_checkpoints.h"
#include "pserver/fencing/round_membership.h"
#include "pserver/rpc/call_queues.h"

namespace oarlock::pserver {

// What a worker of this version says of itself, and nothing that is reserved.
// `num_workers`: of the job; 0: it stays, and its runs have sizes of their own.
// FailedPrecondition for another protocol version; Unimplemented, in one line
// that says what to leave out, for what is reserved.
absl::Status CheckRegistration(const v1::RegisterWorkerRequest& request,
                               uint32_t num_workers);

// Thread-safe. Coordinator::Shutdown must come before the gRPC server's, so
// that no call is held open.
class CoordinatorService {
 public:
  // `round_membership`: this server's, which is told of registrations at once.
  // `checkpoints`: null without checkpoints; started before the first call.
  // Every call must carry `token`; empty: none. What is given must outlive
  // this.
  CoordinatorService(coordinator::Coordinator* coordinator,
                     RoundMembership* round_membership,
                     const ServerCheckpoints* checkpoints, uint32_t num_workers,
                     const std::string& token);
  ~CoordinatorService();

  CoordinatorService(const CoordinatorService&) = delete;
  CoordinatorService& operator=(const CoordinatorService&) = delete;

  // What to register with the builder.
  grpc::Service* service();
  // For CallQueues::Start; the service must outlive the queues' threads.
  CallQueues::Acceptor Acceptor(std::shared_ptr<QueueGate> gate) const;

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_SERVICE_COORDINATOR_SERVICE_H_
