// Metrics of a server's cuts, checkpoints and log.

#ifndef OARLOCK_PSERVER_CHECKPOINT_CHECKPOINT_METRICS_H_
#define OARLOCK_PSERVER_CHECKPOINT_CHECKPOINT_METRICS_H_

#include "base/metrics.h"
#include "pserver/checkpoint/server_checkpoints.h"

namespace oarlock::pserver {

// The log's metrics where there is a log, the coordinator's on server 0.
void CollectCheckpointMetrics(const ServerCheckpoints& checkpoints,
                              MetricsSnapshot* snapshot);

MetricList CheckpointMetricsList();

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_CHECKPOINT_CHECKPOINT_METRICS_H_
