// What the tables of a job that trained a counting model hold when it is done.

#ifndef OARLOCK_TESTS_WORKER_COUNTING_CHECK_H_
#define OARLOCK_TESTS_WORKER_COUNTING_CHECK_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "client/parameter_client.h"
#include "models/model.h"
#include "proto/config/job_config.pb.h"

namespace oarlock::worker {

// Compares every row with how often its key stands in config.train_files(), and
// every dense parameter with the number of examples, times config.epochs(); in
// geo mode times `dense_share`, 1 / number of workers.
// Returns the number of examples; DataLoss that tells how much is missing or
// too much. `spec` is the counting model's. REQUIRES: no push is under way.
absl::StatusOr<uint64_t> CheckCounts(const v1::JobConfig& config,
                                     const models::ModelSpec& spec,
                                     client::ParameterClient& client,
                                     double dense_share = 1);

}  // namespace oarlock::worker

#endif  // OARLOCK_TESTS_WORKER_COUNTING_CHECK_H_
