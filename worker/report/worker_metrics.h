// What a worker tells of its work.

#ifndef OARLOCK_WORKER_REPORT_WORKER_METRICS_H_
#define OARLOCK_WORKER_REPORT_WORKER_METRICS_H_

#include "base/metrics.h"
#include "worker/report/progress_meter.h"

namespace oarlock::worker {

// Of every phase that this worker has begun.
void CollectWorkerMetrics(const ProgressMeter& progress,
                          MetricsSnapshot* snapshot);

MetricList WorkerMetricsList();

}  // namespace oarlock::worker

#endif  // OARLOCK_WORKER_REPORT_WORKER_METRICS_H_
