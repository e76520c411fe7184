// Geo mode: workers train by themselves, and a push carries their changes. It
// is applied when it arrives, as in async mode, by a table whose rule subtracts
// it. Its keys are recorded, so that the other workers can request them.

#ifndef OARLOCK_PSERVER_AGGREGATOR_GEO_AGGREGATOR_H_
#define OARLOCK_PSERVER_AGGREGATOR_GEO_AGGREGATOR_H_

#include "absl/status/status.h"
#include "proto/v1/table.pb.h"
#include "pserver/aggregator/async_aggregator.h"
#include "pserver/aggregator/change_log.h"

namespace oarlock::pserver {

// InvalidArgument unless the table subtracts what a push carries, as it is,
// from every key's row: see UpdateMode GEO in proto/v1/table.proto.
absl::Status CheckGeoTable(const v1::TableConfig& config);

// Thread-safe, as AsyncAggregator.
class GeoAggregator : public AsyncAggregator {
 public:
  // What is given must outlive this.
  GeoAggregator(sparse_table::SparseTable* table, ChangeLog* changes,
                const LogicalClock* clock = nullptr)
      : AsyncAggregator(table, clock), changes_(changes) {}
  explicit GeoAggregator(sparse_table::DenseTable* table,
                         const LogicalClock* clock = nullptr)
      : AsyncAggregator(table, clock) {}

  // Keys are in the log before `done` is called, so a caller that sees the
  // response finds them there. Keys of a push that fails are added too, since
  // some groups may be applied.
  void PushSparse(wire::PushSparseRequestView push, PushDone done) override;

 private:
  // Null with a dense table.
  ChangeLog* const changes_ = nullptr;
};

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_AGGREGATOR_GEO_AGGREGATOR_H_
