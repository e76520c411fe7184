// A push as a sparse table takes it.

#ifndef OARLOCK_SPARSE_TABLE_SPARSE_PUSH_H_
#define OARLOCK_SPARSE_TABLE_SPARSE_PUSH_H_

#include <cstdint>

#include "absl/types/span.h"
#include "base/key_group.h"
#include "base/push_stamp.h"
#include "base/types.h"

namespace oarlock::sparse_table {

// What a push carries for its keys. Arrays are aligned for their type.
struct SparsePush {
  // Ascending partitions, each once. Their sizes sum to the number of keys.
  absl::Span<const KeyGroup> groups;
  // Group after group; a key occurs once in a push.
  const Key* keys = nullptr;
  // [num_keys, dim].
  const float* gradients = nullptr;
  // [num_keys] or null: impressions and clicks to add to the row; null: 0.
  const float* shows = nullptr;
  const float* clicks = nullptr;
  // The pushes that this one consists of: one in async mode, one per
  // contributing worker in a sync round. A group whose partition has applied
  // all of them is left alone; otherwise it is applied and all are remembered.
  absl::Span<const PushStamp> stamps;
  // The job's logical time, for the rows' last touch.
  uint32_t logical_time = 0;
};

}  // namespace oarlock::sparse_table

#endif  // OARLOCK_SPARSE_TABLE_SPARSE_PUSH_H_
