// Metrics of a server's tables. Tables count in any case; this only reads.

#ifndef OARLOCK_PSERVER_TABLE_TABLE_METRICS_H_
#define OARLOCK_PSERVER_TABLE_TABLE_METRICS_H_

#include "base/metrics.h"
#include "pserver/table/table_registry.h"

namespace oarlock::pserver {

// Metrics of every table, and the logical time. Locks one partition after the
// other for a moment.
void CollectTableMetrics(const TableRegistry& registry,
                         MetricsSnapshot* snapshot);

MetricList TableMetricsList();

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_TABLE_TABLE_METRICS_H_
