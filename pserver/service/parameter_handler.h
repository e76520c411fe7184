// What the data plane does with a request: decodes it, checks it against this
// server, has the table pull or the aggregator push, frames the response. Knows
// messages and tables, not connections.

#ifndef OARLOCK_PSERVER_SERVICE_PARAMETER_HANDLER_H_
#define OARLOCK_PSERVER_SERVICE_PARAMETER_HANDLER_H_

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/key_group.h"
#include "base/types.h"
#include "cluster/partition_map.h"
#include "pserver/aggregator/hold_budget.h"
#include "pserver/checkpoint/cut_gate.h"
#include "pserver/checkpoint/server_log.h"
#include "pserver/fencing/push_ledger.h"
#include "pserver/rpc/call_metrics.h"
#include "pserver/rpc/response_budget.h"
#include "pserver/table/table_registry.h"
#include "wire/wire_codec.h"

namespace oarlock::pserver {

// Which server answers, and what the header of a request must say to it.
struct ServerIdentity {
  ServerIndex server;
  uint64_t job_hash = 0;
  Generation server_generation;
};

// Thread-safe.
//
// Errors of every call: InvalidArgument for what the codec refuses, for arrays
// that do not fit the table, and for a push without a legal oldest_unanswered
// or routing generation; OutOfRange for a response beyond kMaxMessageBytes, and
// for a round that holds too much; ResourceExhausted as ResponseBudget and
// HoldBudget say, before anything is done; Unavailable for a push that a newer
// partition map has split, or that belongs behind a cut unknown here;
// FailedPrecondition for another protocol, job, server generation, or a
// partition that lies elsewhere ("moved"); NotFound for the table; for a push
// also what PushLedger::Admit says, and InvalidArgument where it completes one
// to a sync table.
class ParameterHandler {
 public:
  // Called once with the bytes of the response or why there is none, before
  // the handler returns or later, from any thread.
  using Done = absl::AnyInvocable<void(absl::StatusOr<grpc::ByteBuffer>)>;

  // The bytes of its responses, of the call that the request came in.
  using Share = ResponseBudget::Share;

  // What is given must outlive this, and `holds` and `clock` the pushes that an
  // aggregator holds. `gate` null: there are no cuts. Pushes are written to
  // `log` before they are applied; null: to none.
  ParameterHandler(const ServerIdentity& identity, TableRegistry* registry,
                   PushLedger* ledger, HoldBudget* holds,
                   cluster::PartitionMap map, const Clock& clock,
                   CutGate* gate = nullptr, ServerLog* log = nullptr)
      : identity_(identity),
        registry_(registry),
        ledger_(ledger),
        holds_(holds),
        map_(std::move(map)),
        gate_(gate),
        log_(log),
        metrics_(std::make_shared<CallMetrics>(clock)) {}

  // Unavailable while the table is older than header.min_version.
  absl::StatusOr<grpc::ByteBuffer> PullSparse(const grpc::ByteBuffer& request,
                                              Share* share) const;
  absl::StatusOr<grpc::ByteBuffer> PullDense(const grpc::ByteBuffer& request,
                                             Share* share) const;
  void PushSparse(const grpc::ByteBuffer& request, Share* share,
                  Done done) const;
  void PushDense(const grpc::ByteBuffer& request, Share* share,
                 Done done) const;

  // Of all calls above.
  const CallMetrics& metrics() const { return *metrics_; }

 private:
  absl::StatusOr<grpc::ByteBuffer> DoPullSparse(const grpc::ByteBuffer& request,
                                                Share* share) const;
  absl::StatusOr<grpc::ByteBuffer> DoPullDense(const grpc::ByteBuffer& request,
                                               Share* share) const;
  absl::Status CheckHeader(const v1::RequestHeader& header) const;
  // Also admits the push; see PushLedger::Admit.
  absl::Status CheckPushHeader(v1::RequestHeader* header,
                               PushLedger::Message* message) const;
  absl::Status CheckGroups(absl::Span<const KeyGroup> groups) const;
  absl::Status CheckOwner(PartitionIndex partition) const;
  // The floats of all blocks. An error when one does not exist or is not ours.
  absl::StatusOr<size_t> CheckBlocks(const sparse_table::DenseTable& table,
                                     absl::Span<const BlockIndex> blocks) const;
  absl::StatusOr<TableEntry*> FindSparse(TableId id) const;
  absl::StatusOr<TableEntry*> FindDense(TableId id) const;
  v1::ResponseHeader HeaderOf(const TableEntry& entry) const;
  // Room for a push of a round while it waits for the others; nothing without
  // rounds.
  absl::StatusOr<HoldBudget::Hold> TakeHold(
      const TableEntry& entry, const v1::RequestHeader& header,
      const grpc::ByteBuffer& request) const;
  // Given the logical time of a push, or why it is not applied.
  using Apply = absl::AnyInvocable<void(const absl::StatusOr<uint32_t>&)>;
  // Calls `apply` when the push in `request`, which belongs after `cut`, is
  // written down and may be given to the table's aggregator.
  void Pass(const TableEntry& entry, ServerLogKind kind, uint64_t cut,
            const grpc::ByteBuffer& request, Apply apply) const;

  // Also admit the push as `message`. The first tells the push's keys, which
  // stay while `push` and `scratch` do.
  absl::StatusOr<TableEntry*> CheckPush(wire::PushSparseRequestView* push,
                                        std::vector<Key>* scratch,
                                        absl::Span<const Key>* keys,
                                        PushLedger::Message* message) const;
  absl::StatusOr<TableEntry*> CheckPush(wire::PushDenseRequestView* push,
                                        PushLedger::Message* message) const;

  const ServerIdentity identity_;
  TableRegistry* const registry_;
  PushLedger* const ledger_;
  HoldBudget* const holds_;
  const cluster::PartitionMap map_;
  CutGate* const gate_;
  ServerLog* const log_;
  // Shared with the pushes that an aggregator holds, maybe for longer.
  const std::shared_ptr<CallMetrics> metrics_;
};

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_SERVICE_PARAMETER_HANDLER_H_
