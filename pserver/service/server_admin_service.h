// ServerAdminService over gRPC: what every server offers beside the data plane
// (proto/v1/server_admin_service.proto). No call holds a thread while it waits.

#ifndef OARLOCK_PSERVER_SERVICE_SERVER_ADMIN_SERVICE_H_
#define OARLOCK_PSERVER_SERVICE_SERVER_ADMIN_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/types.h"
#include "cluster/partition_map.h"
#include "pserver/fencing/round_membership.h"
#include "pserver/rpc/call_queues.h"
#include "pserver/table/eviction_loop.h"
#include "pserver/table/table_registry.h"

namespace oarlock::pserver {

struct ServerAdminOptions {
  ServerIndex server;
  Generation server_generation;
  std::string job_id;
  uint32_t num_workers = 1;
  bool stay = false;
  // "host:port" of every server, by index. At least one.
  std::vector<std::string> server_endpoints;
  // Every call must carry it as metadata kTokenMetadataKey. Empty: none.
  std::string token;
  // See ConnectResponse in proto/v1/server_admin.proto.
  bool has_checkpoints = false;
  uint64_t restored_cut = 0;
  bool lossless = false;
  bool log_may_lack_its_end = false;
  std::vector<v1::ReplayedPushes> replayed;
  std::string checkpoint_dir;
  uint64_t checkpoint_mark = 0;
};

// Thread-safe. EvictionLoop::Stop must come before the gRPC server's shutdown,
// so that no call is held open.
class ServerAdminService {
 public:
  // What is given, and `clock`, which is monotonic, must outlive this.
  ServerAdminService(const ServerAdminOptions& options,
                     const cluster::PartitionMap& map, TableRegistry* registry,
                     RoundMembership* round_membership,
                     EvictionLoop* eviction_loop, const Clock& clock);
  ~ServerAdminService();

  ServerAdminService(const ServerAdminService&) = delete;
  ServerAdminService& operator=(const ServerAdminService&) = delete;

  // What to register with the builder.
  grpc::Service* service();
  // For CallQueues::Start; the service must outlive the queues' threads.
  CallQueues::Acceptor Acceptor(std::shared_ptr<QueueGate> gate) const;

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_SERVICE_SERVER_ADMIN_SERVICE_H_
