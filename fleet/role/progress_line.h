// The one line that says how a job is getting on.

#ifndef OARLOCK_FLEET_ROLE_PROGRESS_LINE_H_
#define OARLOCK_FLEET_ROLE_PROGRESS_LINE_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "proto/v1/coordinator_job.pb.h"
#include "proto/v1/coordinator_progress.pb.h"

namespace oarlock {

// Turns successive job states into a line for people:
//
//   epoch 1/3  63 %  =========>      71,204 examples/s  loss .4871
//   auc .7423  staleness p50 1 p99 3  5 s left
//
// Rates are over the last few seconds. Not thread-safe.
class ProgressLine {
 public:
  explicit ProgressLine(int epochs) : epochs_(epochs) {}

  // The line for `status`, taken at `now`; empty before anything has begun.
  std::string Update(const v1::JobStatusResponse& status, absl::Time now);

 private:
  // Where the newest phase stood a moment ago.
  struct Mark {
    std::string phase;
    uint64_t examples = 0;
    absl::Time time;
  };
  double RateOf(const v1::PhaseProgress& progress, absl::Time now);

  const int epochs_;
  Mark mark_;
  double rate_ = 0;
};

}  // namespace oarlock

#endif  // OARLOCK_FLEET_ROLE_PROGRESS_LINE_H_
