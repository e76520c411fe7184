// Leases that run out because a test says so.

#ifndef OARLOCK_TESTS_WORKER_SKIPPED_LEASES_H_
#define OARLOCK_TESTS_WORKER_SKIPPED_LEASES_H_

#include <algorithm>
#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/metrics.h"
#include "client/job_client.h"
#include "proto/v1/coordinator_job.pb.h"
#include "tests/base/eventually.h"
#include "tests/base/skippable_clock.h"
#include "tests/integration/mini_cluster.h"

namespace oarlock::worker {

// The coordinator's logical time, in ticks: its checks of deadlines move it on.
inline double LogicalTime(MiniCluster& cluster) {
  MetricsSnapshot snapshot;
  cluster.server(0).CollectMetrics(&snapshot);
  return snapshot.families()
      .at("oarlock_server_logical_time_ticks")
      .samples[0]
      .value;
}

// Moves the clock of the cluster's coordinator, of which workers have leases of
// `lease`, on until `condition` holds; whether it does. In steps that the
// coordinator sees one by one: it takes a longer one for a standstill of its
// own, and extends all leases. `survivor` renews its own in between.
inline bool SkipUntil(MiniCluster& cluster, SkippableClock* clock,
                      absl::Duration lease, client::JobClient& survivor,
                      const std::function<bool()>& condition) {
  return Eventually([&] {
    if (condition()) return true;
    const double before = LogicalTime(cluster);
    clock->Skip(lease / 4);
    survivor.Report().IgnoreError();
    return Eventually(
               [&] { return LogicalTime(cluster) > before || condition(); }) &&
           condition();
  });
}

// Until the lease of worker `index` is over; it has vanished.
inline bool SkipUntilLost(MiniCluster& cluster, SkippableClock* clock,
                          absl::Duration lease, client::JobClient& survivor,
                          uint32_t index) {
  return SkipUntil(cluster, clock, lease, survivor, [&] {
    const absl::StatusOr<v1::JobStatusResponse> status =
        survivor.GetJobStatus();
    return status.ok() &&
           std::any_of(status->workers().begin(), status->workers().end(),
                       [&](const v1::WorkerState& worker) {
                         return worker.worker_index() == index &&
                                worker.life() == v1::WorkerState::LOST;
                       });
  });
}

}  // namespace oarlock::worker

#endif  // OARLOCK_TESTS_WORKER_SKIPPED_LEASES_H_
