// What is known to be wrong of a strategy before anybody is waited for.

#ifndef OARLOCK_FLEET_DATA_PARALLEL_STRATEGY_CHECK_H_
#define OARLOCK_FLEET_DATA_PARALLEL_STRATEGY_CHECK_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "fleet/data_parallel/worker_group.h"

namespace oarlock {

// InvalidArgument: gradients are to travel by NCCL alone, and in 16 bits.
// `prefix` stands before the names of fields in the message: "--" for flags,
// "the strategy's " in a program.
absl::Status CheckFormatOfNccl(const DistributedStrategy& strategy,
                               absl::string_view prefix);

}  // namespace oarlock

#endif  // OARLOCK_FLEET_DATA_PARALLEL_STRATEGY_CHECK_H_
