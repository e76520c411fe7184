// The cells of one partition's rows: which chunks of the arena it has, and
// which of their cells are free. Cells never move.
//
// Cells of rows that have left form a list through the cells themselves and are
// used again before new ones.

#ifndef OARLOCK_SPARSE_TABLE_ROWS_ROW_CELLS_H_
#define OARLOCK_SPARSE_TABLE_ROWS_ROW_CELLS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "sparse_table/rows/row_layout.h"
#include "sparse_table/rows/row_space.h"

namespace oarlock::sparse_table {

// Guarded by the partition's lock: shared for const functions.
class RowCells {
 public:
  // A cell, whatever it holds.
  struct Cursor {
    size_t chunk = 0;
    uint32_t cell = 0;
  };
  // Cells [begin, end) of a chunk of the arena.
  struct Range {
    uint32_t chunk = 0;
    uint32_t begin = 0;
    uint32_t end = 0;
  };

  // `rows` outlives this. Rows begin at cell `first_cell` of the first chunk.
  RowCells(const RowSpace* rows, uint32_t first_cell)
      : rows_(rows),
        first_cell_(first_cell),
        tail_cell_(first_cell),
        hand_(first_cell) {}

  // Makes room for so many rows. ResourceExhausted when there is no memory.
  absl::Status Reserve(size_t num_new);
  // A cell for a row, its contents any. REQUIRES: room was reserved.
  RowRef Take();
  // The row of this cell has left. REQUIRES: it held one.
  void GiveBack(RowRef ref);

  // Cells that have been used.
  size_t num_used() const { return end() - first_cell_; }
  // The next cell of a clock hand that goes round those. REQUIRES: there are
  // some.
  RowRef AdvanceHand();
  // They as ranges, in the order in which chunks were taken.
  std::vector<Range> UsedRanges() const;

  // Calls visit(RowRef, std::byte* row) for the rows in the next `max_cells`
  // cells from `cursor` on and moves it behind them; false when there are no
  // more. Rows that are created between two calls are visited or not.
  template <typename Visit>
  bool VisitRows(Cursor* cursor, uint32_t max_cells, Visit visit) const {
    if (cursor->chunk == 0) cursor->cell = std::max(cursor->cell, first_cell_);
    for (uint32_t i = 0; i < max_cells; ++i) {
      if (cursor->cell == rows_->rows_per_chunk()) {
        ++cursor->chunk;
        cursor->cell = 0;
      }
      if (cursor->chunk > tail_ || cursor->chunk >= chunks_.size() ||
          (cursor->chunk == tail_ && cursor->cell >= tail_cell_)) {
        return false;
      }
      const RowRef ref = rows_->RefOf(chunks_[cursor->chunk], cursor->cell++);
      std::byte* const row = rows_->At(ref);
      if (!RowLayout::Header(row).is_free()) visit(ref, row);
    }
    return true;
  }

  size_t heap_bytes() const { return chunks_.capacity() * sizeof(uint32_t); }

 private:
  // Counted from the beginning of the first chunk.
  size_t end() const { return tail_ * rows_->rows_per_chunk() + tail_cell_; }

  const RowSpace* const rows_;
  // Of the first chunk; cells before it are never used.
  const uint32_t first_cell_;
  // The next new cell is tail_cell_ of chunk number tail_, which is
  // chunks_.size() when all are full.
  uint32_t tail_cell_;
  size_t tail_ = 0;
  std::vector<uint32_t> chunks_;
  // The first free cell before the tail, and how many there are.
  RowRef free_ = kNoRow;
  size_t num_free_ = 0;
  // Number of the cell that the clock looks at next.
  size_t hand_;
};

}  // namespace oarlock::sparse_table

#endif  // OARLOCK_SPARSE_TABLE_ROWS_ROW_CELLS_H_
