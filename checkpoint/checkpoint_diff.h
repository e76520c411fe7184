// Whether training would go on the same from two checkpoints.

#ifndef OARLOCK_CHECKPOINT_CHECKPOINT_DIFF_H_
#define OARLOCK_CHECKPOINT_CHECKPOINT_DIFF_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "checkpoint/manifest.h"

namespace oarlock::checkpoint {

// What differs between two checkpoints so that training would notice: rows,
// values, optimizer state, statistics, dense values; not versions and times.
// A sentence for each, at most `max_differences`; none: training would go on
// the same. The numbers of servers and of partitions may differ.
absl::StatusOr<std::vector<std::string>> DiffCheckpoints(
    const OpenCheckpoint& a, const OpenCheckpoint& b, size_t max_differences);

}  // namespace oarlock::checkpoint

#endif  // OARLOCK_CHECKPOINT_CHECKPOINT_DIFF_H_
