// What a server tells of its tables. Tables count anyhow; this asks them.

#ifndef OARLOCK_PSERVER_TABLE_TABLE_METRICS_H_
#define OARLOCK_PSERVER_TABLE_TABLE_METRICS_H_

#include "base/metrics.h"
#include "pserver/table/table_registry.h"

namespace oarlock::pserver {

// Of every table, and the logical time. Locks one partition after the other
// for a moment.
void CollectTableMetrics(const TableRegistry& registry,
                         MetricsSnapshot* snapshot);

MetricList TableMetricsList();

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_TABLE_TABLE_METRICS_H_
