// The data plane: pulls and pushes of rows and blocks.
//
// Requests arrive as the bytes that gRPC received. A pull's response is
// gathered by the table right into the slice that is sent; a push goes to its
// table's aggregator, which answers it when its mode says so.

#ifndef OARLOCK_PSERVER_SERVICE_PARAMETER_SERVICE_H_
#define OARLOCK_PSERVER_SERVICE_PARAMETER_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "base/types.h"
#include "cluster/partition_map.h"
#include "pserver/aggregator/hold_budget.h"
#include "pserver/checkpoint/cut_gate.h"
#include "pserver/checkpoint/server_log.h"
#include "pserver/fencing/push_ledger.h"
#include "pserver/rpc/call_queues.h"
#include "pserver/table/table_registry.h"

namespace oarlock::pserver {

struct ParameterServiceOptions {
  ServerIndex server;
  // What the header of every request must say; see proto/v1/parameter.proto.
  uint64_t job_hash = 0;
  Generation server_generation;
  // Every call must carry it as metadata kTokenMetadataKey. Empty: none.
  std::string token;
  // Of responses to pulls that are on the way; a pull beyond that is
  // ResourceExhausted. At least 1.
  uint64_t max_response_bytes = uint64_t{1} << 30;

  // InvalidArgument names the field, its value and what is legal.
  absl::Status Validate() const;
};

// Thread-safe.
class ParameterService {
 public:
  // REQUIRES: the options are valid. What is given must outlive this, and
  // `holds` and `clock`, which is monotonic, all calls. `gate` and `log`: see
  // ParameterHandler.
  ParameterService(const ParameterServiceOptions& options,
                   TableRegistry* registry, PushLedger* ledger,
                   HoldBudget* holds, cluster::PartitionMap map,
                   const Clock& clock, CutGate* gate = nullptr,
                   ServerLog* log = nullptr);
  ~ParameterService();

  ParameterService(const ParameterService&) = delete;
  ParameterService& operator=(const ParameterService&) = delete;

  // What to register with the builder.
  grpc::Service* service();
  // For CallQueues::Start; the service must outlive the queues' threads. A
  // call may be held for longer.
  CallQueues::Acceptor Acceptor(std::shared_ptr<QueueGate> gate) const;

  void CollectMetrics(MetricsSnapshot* snapshot) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Those of its calls included.
std::vector<const Metric*> ParameterServiceMetrics();

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_SERVICE_PARAMETER_SERVICE_H_
