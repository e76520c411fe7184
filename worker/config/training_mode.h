// The values of --mode. This is the one place that compares its text.

#ifndef OARLOCK_WORKER_CONFIG_TRAINING_MODE_H_
#define OARLOCK_WORKER_CONFIG_TRAINING_MODE_H_

#include "proto/config/job_config.pb.h"

namespace oarlock::worker {

// How workers exchange gradients; docs/modes.md compares the modes.
enum class TrainingMode {
  // Servers apply a push when it arrives.
  kAsync,
  // The same, and the compute threads of a worker make one push together.
  kHalfAsync,
  // As kAsync, and no compute thread is too many steps ahead of the slowest.
  kSsp,
  // Servers apply rounds of all workers.
  kSync,
  // Workers train by themselves and exchange what they have changed.
  kGeo,
};

// REQUIRES: the mode of `config` is legal (flags::ValidateMessage).
TrainingMode ModeOf(const v1::JobConfig& config);

}  // namespace oarlock::worker

#endif  // OARLOCK_WORKER_CONFIG_TRAINING_MODE_H_
