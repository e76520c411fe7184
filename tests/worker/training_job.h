// Whole training jobs inside a test, and what they leave in the tables.

#ifndef OARLOCK_TESTS_WORKER_TRAINING_JOB_H_
#define OARLOCK_TESTS_WORKER_TRAINING_JOB_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "fleet/local_cluster.h"
#include "proto/config/job_config.pb.h"
#include "proto/v1/coordinator_job.pb.h"
#include "proto/v1/coordinator_progress.pb.h"
#include "tests/integration/mini_cluster.h"
#include "worker/report/summary.h"
#include "worker/trainer.h"

namespace oarlock::worker {

// Every parameter that a job trained: of each sparse table the rows of all
// keys in the training files, keys ascending, of that of norms the first row;
// then the dense parameters.
using Parameters = std::vector<float>;

struct JobOutcome {
  // Of the first worker; a failed job has neither summary nor parameters.
  TrainingSummary summary;
  Parameters parameters;
  v1::JobStatusResponse status;
  // Of each worker.
  std::vector<absl::Status> statuses;

  bool ok() const;
  // Of the phase numbered `epoch`; a test failure when there was none.
  const v1::PhaseStatus& Phase(const std::string& phase, uint32_t epoch) const;
};

// All epochs of `config` in this thread, without servers.
JobOutcome RunLocalJob(const v1::JobConfig& config);
// With the math of another backend.
JobOutcome RunLocalJob(const v1::JobConfig& config,
                       const std::string& math_backend);
// On tables of the caller's.
JobOutcome RunLocalJob(const v1::JobConfig& config,
                       LocalParameterClient* parameters);

// The same through servers: one thread per worker. A worker that fails tells
// the coordinator, as fleet/ does.
JobOutcome RunClusterJob(const v1::JobConfig& config, uint32_t num_servers,
                         uint32_t num_workers);
// With options of the cluster's and the trainers' own.
JobOutcome RunClusterJob(const v1::JobConfig& config,
                         const MiniClusterOptions& options,
                         const TrainerOptions& trainer = TrainerOptions());

// What the tables hold before anything is trained.
Parameters InitialParameters(const v1::JobConfig& config);

// The largest |a - b| over all parameters. They must be as many.
float LargestDifference(const Parameters& a, const Parameters& b);

}  // namespace oarlock::worker

#endif  // OARLOCK_TESTS_WORKER_TRAINING_JOB_H_
