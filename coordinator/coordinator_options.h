// The options of a coordinator, and the state of the job that it reports.

#ifndef OARLOCK_COORDINATOR_COORDINATOR_OPTIONS_H_
#define OARLOCK_COORDINATOR_COORDINATOR_OPTIONS_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace oarlock::coordinator {

struct CoordinatorOptions {
  std::string job_id = "default";
  // At least 1 each.
  uint32_t num_workers = 1;
  // The job outlives its workers, who come in runs (coordinator_runs.cc), and
  // ends when it is drained. `num_workers` is the size of a run whose first
  // registration does not say one.
  bool stay = false;
  // Of a run of a job that stays.
  uint32_t max_workers = 1;
  // Its number is that of the next run at least.
  uint64_t first_run = 1;
  // What workers of the runs before are told: the servers have gone back to a
  // cut, why, and what to do. Empty: there were none.
  std::string rolled_back = {};
  uint32_t num_servers = 1;
  // A worker or a server is taken for dead after this time without a heartbeat.
  absl::Duration lease = absl::Seconds(6);
  // How long the coordinator waits for the successor of a lost worker.
  absl::Duration restart_grace = absl::Seconds(10);
  // How long after the first worker the last one may register.
  absl::Duration start_timeout = absl::Minutes(5);
  // How long workers may take to leave a job that is being ended.
  absl::Duration drain_grace = absl::Seconds(3);
  // One unit of the job's logical time.
  absl::Duration tick = absl::Seconds(1);
  // It counts epochs that are over instead, and the next one begins when all
  // servers have evicted what is due then.
  bool tick_per_epoch = false;
};

// The state of the job.
struct JobState {
  // Being ended before its time, or over.
  bool ending = false;
  bool over = false;
  bool failed = false;
  // Why it failed or was drained, one sentence.
  std::string reason;
};

}  // namespace oarlock::coordinator

#endif  // OARLOCK_COORDINATOR_COORDINATOR_OPTIONS_H_
