// Checks what an outsider claims about the partitions of its keys.

#ifndef OARLOCK_SPARSE_TABLE_CHECK_KEY_GROUPS_H_
#define OARLOCK_SPARSE_TABLE_CHECK_KEY_GROUPS_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/key_group.h"
#include "base/types.h"

namespace oarlock::sparse_table {

// InvalidArgument, naming the first offender, unless partitions are ascending,
// each once and below 2^partition_bits, the groups' sizes sum to `num_keys`,
// and every key lies in the partition under which it comes. About 1 ns a key.
// SparseTable takes all of that for granted.
absl::Status CheckKeyGroups(absl::Span<const KeyGroup> groups, const Key* keys,
                            size_t num_keys, int partition_bits);

}  // namespace oarlock::sparse_table

#endif  // OARLOCK_SPARSE_TABLE_CHECK_KEY_GROUPS_H_
