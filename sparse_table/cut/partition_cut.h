// What a partition keeps of the moment at which it was frozen until it has been
// saved: small things as they were, and pre-images of rows that change.
//
// A row belongs to the cut when its header word (version first) is in a range
// that the freeze sets:
//
//   all rows       1 << k  <= word < unchanged_below  (k bits below the
//   version) changes        the previous unchanged_below <= word <
//   unchanged_below
//
// A new row has version 0 until its first push is done and a free cell has
// always, so neither is in it. Whoever changes a row or takes it away calls
// BeforeLoss first. Cells are saved in the order of their references; those
// below saved_below() have been, so their rows may change without more ado.

#ifndef OARLOCK_SPARSE_TABLE_CUT_PARTITION_CUT_H_
#define OARLOCK_SPARSE_TABLE_CUT_PARTITION_CUT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "base/push_window.h"
#include "base/types.h"
#include "sparse_table/cut/append_only_list.h"
#include "sparse_table/cut/pre_images.h"
#include "sparse_table/rows/packed_rows.h"
#include "sparse_table/rows/row_cells.h"
#include "sparse_table/rows/row_layout.h"
#include "sparse_table/rows/row_space.h"
#include "sparse_table/rules/count_sketch.h"
#include "storage/cold_rows.h"

namespace oarlock::sparse_table {

// A partition at its freeze. Constant from then on.
struct FrozenPartition {
  uint64_t version = 0;
  uint32_t latest_touch = 0;
  size_t rows = 0;
  uint64_t created_rows = 0;
  uint64_t rejected_keys = 0;
  std::vector<PushWindow> windows;
  CountSketch::Counts sketch;
  std::vector<RowCells::Range> cells;
  // Rows on disk as they were; null when there were none.
  std::unique_ptr<const storage::ColdRowsReader> cold_rows;
};

// What has happened to a partition's rows since a freeze. Names may repeat and
// be outdated: a cell may have got another row, a key may have no row any more.
struct RowChanges {
  // Cells of rows in memory that were changed, created or, having changed
  // before, promoted.
  AppendOnlyList<RowRef> cells;
  // Keys of rows that had changed when they left memory for disk.
  AppendOnlyList<Key> demoted;
  AppendOnlyList<Key> evicted;

  size_t heap_bytes() const {
    return cells.heap_bytes() + demoted.heap_bytes() + evicted.heap_bytes();
  }
};

// Guarded by the partition's lock; what is const after construction may be read
// without it.
class PartitionCut {
 public:
  // Header words of the cut's rows.
  struct Words {
    uint64_t begin = 0;
    uint64_t end = 0;

    bool Contains(uint64_t word) const { return word - begin < end - begin; }
  };

  PartitionCut(bool full, Words words, RowChanges changes,
               const PackedRows& packing, FrozenPartition frozen)
      : full_(full),
        words_(words),
        changes_(std::move(changes)),
        frozen_(std::move(frozen)),
        images_(packing) {}

  // Whether all rows are saved, or what has changed.
  bool full() const { return full_; }
  const Words& words() const { return words_; }
  // Between the previous freeze and this one; of a full cut nothing.
  const RowChanges& changes() const { return changes_; }
  const FrozenPartition& frozen() const { return frozen_; }

  // The row in this cell is about to change, to go or to move. Exclusive.
  void BeforeLoss(RowRef ref, const std::byte* row) {
    if (static_cast<uint32_t>(ref) <
            saved_below_.load(std::memory_order_relaxed) ||
        !words_.Contains(RowLayout::Header(row).packed)) {
      return;
    }
    images_.Add(ref, row);
  }

  // Cells below `ref` have been saved. By the one thread that saves, while it
  // holds the lock, shared or not.
  void SetSavedBelow(uint32_t ref) {
    saved_below_.store(ref, std::memory_order_relaxed);
  }
  static constexpr uint32_t kAllSaved = std::numeric_limits<uint32_t>::max();

  const PreImages& images() const { return images_; }

  size_t heap_bytes() const {
    return changes_.heap_bytes() + images_.heap_bytes();
  }

 private:
  const bool full_;
  const Words words_;
  const RowChanges changes_;
  const FrozenPartition frozen_;
  PreImages images_;
  // Written under a shared lock, read under the exclusive one.
  std::atomic<uint32_t> saved_below_{0};
};

}  // namespace oarlock::sparse_table

#endif  // OARLOCK_SPARSE_TABLE_CUT_PARTITION_CUT_H_
