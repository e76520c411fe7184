// Combines the pushes of one sync round into one push per table.
//
// Every float of the result is ((g1 + g2) + g3 + ...) / divisor in single
// precision, with the pushes in the order given. It depends neither on the
// order in which they arrived nor on how they were cut into messages.

#ifndef OARLOCK_PSERVER_AGGREGATOR_ROUND_MERGE_H_
#define OARLOCK_PSERVER_AGGREGATOR_ROUND_MERGE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/key_group.h"
#include "base/types.h"
#include "sparse_table/sparse_table.h"
#include "wire/wire_codec.h"

namespace oarlock::pserver {

// Merges per key. Keeps its memory from round to round. Not thread-safe.
class SparseRoundMerger {
 public:
  explicit SparseRoundMerger(size_t dim) : dim_(dim) {}

  // Calls `apply` with slices of merged groups, partitions ascending, each
  // once. Statistics are added up, never divided; they are null when no push
  // has them. The slice has no stamps and is valid during the call. Stops at
  // the first error and returns it. REQUIRES: divisor >= 1.
  absl::Status Merge(
      absl::Span<const wire::PushSparseRequestView* const> pushes,
      uint32_t divisor,
      absl::FunctionRef<absl::Status(const sparse_table::SparsePush&)> apply);

 private:
  // How far one push has been read.
  struct Cursor {
    const wire::PushSparseRequestView* push;
    size_t group = 0;
    // Keys before `group`.
    size_t key = 0;
  };

  // Adds the next group of `cursor` to the group that is being merged, whose
  // keys begin at `first`.
  void AddGroup(Cursor* cursor, size_t first);
  // The place of `key` in keys_, searched from `first` on. A new key is
  // appended with zeros.
  size_t PlaceOf(Key key, size_t first, bool* is_new);
  // Makes room in the look-up table for a group of `num_keys` keys.
  void ClearPlaces(size_t num_keys);
  absl::Status Flush(
      uint32_t divisor,
      absl::FunctionRef<absl::Status(const sparse_table::SparsePush&)> apply);

  const size_t dim_;
  std::vector<Cursor> cursors_;
  // Merged and not yet applied: [keys], [keys, dim], [keys].
  std::vector<KeyGroup> groups_;
  std::vector<Key> keys_;
  std::vector<float> gradients_;
  std::vector<float> shows_;
  std::vector<float> clicks_;
  bool has_shows_ = false;
  bool has_clicks_ = false;
  // Open addressing with linear probing, a power of two in size, at most half
  // full: 1 + the key's place counted from the group's first; 0: free.
  std::vector<uint32_t> places_;
  // Places of the keys of the group that is being added.
  std::vector<size_t> group_places_;
  std::vector<Key> key_scratch_;
  std::vector<float> float_scratch_;
};

// Merges per block. Keeps its memory from round to round. Not thread-safe.
class DenseRoundMerger {
 public:
  // Calls `apply` with each block that a push has, ascending, and its merged
  // gradients [block_size(block)]. REQUIRES: divisor >= 1.
  void Merge(absl::Span<const wire::PushDenseRequestView* const> pushes,
             uint32_t divisor, absl::FunctionRef<size_t(BlockIndex)> block_size,
             absl::FunctionRef<void(BlockIndex, const float*)> apply);

 private:
  struct Cursor {
    const wire::PushDenseRequestView* push;
    size_t block = 0;
    // Values before `block`.
    size_t value = 0;
  };
  std::vector<Cursor> cursors_;
  std::vector<float> sum_;
  std::vector<float> scratch_;
};

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_AGGREGATOR_ROUND_MERGE_H_
