// The control plane over gRPC. Every method checks the token, then asks the
// coordinator, the table registry, the round membership or the eviction loop;
// none of them holds a thread while it waits.

#ifndef OARLOCK_PSERVER_SERVICE_ADMIN_SERVICE_H_
#define OARLOCK_PSERVER_SERVICE_ADMIN_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/clock.h"
#include "base/types.h"
#include "cluster/partition_map.h"
#include "coordinator/coordinator.h"
#include "pserver/checkpoint/checkpoint_loop.h"
#include "pserver/fencing/round_membership.h"
#include "pserver/rpc/call_queues.h"
#include "pserver/table/eviction_loop.h"
#include "pserver/table/table_registry.h"

namespace oarlock::pserver {

struct AdminServiceOptions {
  ServerIndex server;
  Generation server_generation;
  std::string job_id;
  uint32_t num_workers = 1;
  // "host:port" of every server, by index: for the error of those who ask the
  // wrong one, and for status responses. At least one.
  std::vector<std::string> server_endpoints;
  // Every call must carry it as metadata kTokenMetadataKey. Empty: none.
  std::string token;
  // See proto/v1/admin.proto ConnectResponse.
  bool has_checkpoints = false;
};

// Thread-safe. Coordinator::Shutdown and EvictionLoop::Stop must come before
// the gRPC server's, so that no call is held open.
class AdminService {
 public:
  // `coordinator` is null on every server but 0. All of them and `clock` must
  // outlive this.
  AdminService(const AdminServiceOptions& options,
               const cluster::PartitionMap& map, TableRegistry* registry,
               RoundMembership* round_membership,
               coordinator::Coordinator* coordinator,
               EvictionLoop* eviction_loop, const Clock& clock);
  ~AdminService();

  AdminService(const AdminService&) = delete;
  AdminService& operator=(const AdminService&) = delete;

  // Both before the queues start.
  //
  // Who makes checkpoints, null: nobody. Outlives the queues' threads.
  void SetCheckpointLoop(CheckpointLoop* loop);
  // What this incarnation began with, see ConnectResponse.
  void SetRestored(uint64_t cut, bool lossless);

  // What to register with the builder.
  grpc::Service* service();
  // For CallQueues::Start; the service must outlive the queues' threads.
  CallQueues::Acceptor Acceptor(std::shared_ptr<QueueGate> gate) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_SERVICE_ADMIN_SERVICE_H_
