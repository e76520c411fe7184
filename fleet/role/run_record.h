// What a run was: so much that it can be repeated.

#ifndef OARLOCK_FLEET_ROLE_RUN_RECORD_H_
#define OARLOCK_FLEET_ROLE_RUN_RECORD_H_

#include <string>
#include <vector>

#include "proto/config/job_config.pb.h"
#include "worker/report/summary.h"

namespace oarlock {

// Fills in version, flags and the digests of the files.
void RecordRun(const v1::JobConfig& config,
               const std::vector<std::string>& train_files,
               const std::vector<std::string>& test_files,
               worker::TrainingSummary* summary);

}  // namespace oarlock

#endif  // OARLOCK_FLEET_ROLE_RUN_RECORD_H_
