// The control plane over gRPC. Every method checks the token, then asks the
// coordinator, the table registry or the round roster; none of them holds a
// thread while it waits.

#ifndef OARLOCK_PSERVER_ADMIN_SERVICE_H_
#define OARLOCK_PSERVER_ADMIN_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/types.h"
#include "cluster/partition_map.h"
#include "proto/admin.grpc.pb.h"
#include "pserver/coordinator.h"
#include "pserver/round_roster.h"
#include "pserver/table_registry.h"

namespace oarlock {

struct AdminServiceOptions {
  ServerIndex server;
  Generation server_generation;
  std::string job_id;
  uint32_t num_workers = 1;
  // "host:port" of server 0, for the error of those who ask elsewhere.
  std::string coordinator_endpoint;
  // Every call must carry it as metadata kTokenMetadataKey. Empty: none.
  std::string token;
};

// Thread-safe. Coordinator::Shutdown must come before the gRPC server's, so
// that no barrier call is held open.
class AdminService : public v1::AdminService::CallbackService {
 public:
  // `coordinator` is null on every server but 0. All of them and `clock` must
  // outlive this.
  AdminService(const AdminServiceOptions& options, const PartitionMap& map,
               TableRegistry* registry, RoundRoster* roster,
               Coordinator* coordinator, const Clock& clock);

  using Context = grpc::CallbackServerContext;
  using Reactor = grpc::ServerUnaryReactor;

  Reactor* Connect(Context* context, const v1::ConnectRequest* request,
                   v1::ConnectResponse* response) override;
  Reactor* RegisterWorker(Context* context,
                          const v1::RegisterWorkerRequest* request,
                          v1::RegisterWorkerResponse* response) override;
  Reactor* Heartbeat(Context* context, const v1::HeartbeatRequest* request,
                     v1::HeartbeatResponse* response) override;
  Reactor* FinishWorker(Context* context,
                        const v1::FinishWorkerRequest* request,
                        v1::FinishWorkerResponse* response) override;
  Reactor* ServerHeartbeat(Context* context,
                           const v1::ServerHeartbeatRequest* request,
                           v1::ServerHeartbeatResponse* response) override;
  Reactor* CreateTable(Context* context, const v1::CreateTableRequest* request,
                       v1::CreateTableResponse* response) override;
  Reactor* Barrier(Context* context, const v1::BarrierRequest* request,
                   v1::BarrierResponse* response) override;
  Reactor* SetRoundMembership(Context* context,
                              const v1::RoundMembershipRequest* request,
                              v1::RoundMembershipResponse* response) override;
  Reactor* DefineWork(Context* context, const v1::DefineWorkRequest* request,
                      v1::DefineWorkResponse* response) override;
  Reactor* LeaseWork(Context* context, const v1::LeaseWorkRequest* request,
                     v1::LeaseWorkResponse* response) override;
  Reactor* GetJobStatus(Context* context, const v1::JobStatusRequest* request,
                        v1::JobStatusResponse* response) override;
  Reactor* GetServerStatus(Context* context,
                           const v1::ServerStatusRequest* request,
                           v1::ServerStatusResponse* response) override;
  Reactor* Drain(Context* context, const v1::DrainRequest* request,
                 v1::DrainResponse* response) override;

 private:
  absl::Status CheckToken(const Context& context) const;
  // FailedPrecondition on every server but 0.
  absl::Status CheckIsCoordinator() const;
  // Both of the above.
  absl::Status CheckCoordinatorCall(const Context& context) const;
  absl::Status CheckConnect(const v1::ConnectRequest& request) const;

  const AdminServiceOptions options_;
  const PartitionMap map_;
  TableRegistry* const registry_;
  RoundRoster* const roster_;
  Coordinator* const coordinator_;
  const Clock& clock_;
  const absl::Time start_;
};

}  // namespace oarlock

#endif  // OARLOCK_PSERVER_ADMIN_SERVICE_H_
