// An epoch in rounds: all live workers compute on the same parameters, and
// their gradients are applied together.

#ifndef OARLOCK_WORKER_EPOCH_SYNC_EPOCH_H_
#define OARLOCK_WORKER_EPOCH_SYNC_EPOCH_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "worker/epoch/epoch_context.h"

namespace oarlock::worker {

// Trains on all examples of context.ranges, one batch per compute thread and
// round. The compute threads' gradients are summed in the order of the compute
// threads and sent as one push; the servers sum over workers in their order.
// Two runs of the same job are bitwise equal when the ranges are split the same
// way.
//
// `num_rounds`: every worker takes part in as many, with an empty push when it
// has no data left; not given, it takes part until its data ends (then the
// servers average over fewer workers).
absl::Status RunSyncEpoch(const EpochContext& context,
                          std::optional<uint64_t> num_rounds);

}  // namespace oarlock::worker

#endif  // OARLOCK_WORKER_EPOCH_SYNC_EPOCH_H_
