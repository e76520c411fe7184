// Keys travel grouped by partition.

#ifndef OARLOCK_BASE_KEY_GROUP_H_
#define OARLOCK_BASE_KEY_GROUP_H_

#include <cstdint>

#include "base/types.h"

namespace oarlock {

// The next `num_keys` keys of an array belong to `partition`.
struct KeyGroup {
  PartitionIndex partition;
  uint32_t num_keys = 0;
};

}  // namespace oarlock

#endif  // OARLOCK_BASE_KEY_GROUP_H_
