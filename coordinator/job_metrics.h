// Metrics of the job as a whole, as the coordinator sees it.

#ifndef OARLOCK_COORDINATOR_JOB_METRICS_H_
#define OARLOCK_COORDINATOR_JOB_METRICS_H_

#include "base/metrics.h"
#include "coordinator/coordinator.h"

namespace oarlock::coordinator {

// How many workers and servers take part, and how far the newest phase of each
// kind ("train", "test") is. Sums are over all workers, as of their last
// heartbeats.
void CollectJobMetrics(const Coordinator& coordinator,
                       MetricsSnapshot* snapshot);

MetricList JobMetricsList();

}  // namespace oarlock::coordinator

#endif  // OARLOCK_COORDINATOR_JOB_METRICS_H_
