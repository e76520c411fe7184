// The slots of one partition's rows: which chunks of the arena it has, and
// which of their slots are free. Slots never move.
//
// Slots of rows that have left form a list through the slots themselves and are
// used again before new ones.

#ifndef OARLOCK_SPARSE_TABLE_ROWS_ROW_SLOTS_H_
#define OARLOCK_SPARSE_TABLE_ROWS_ROW_SLOTS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "sparse_table/rows/row_layout.h"
#include "sparse_table/rows/row_space.h"

namespace oarlock::sparse_table {

// Guarded by the partition's lock: shared for const functions.
class RowSlots {
 public:
  // A slot, whatever it holds.
  struct Cursor {
    size_t chunk = 0;
    uint32_t slot = 0;
  };
  // Slots [begin, end) of a chunk of the arena.
  struct Range {
    uint32_t chunk = 0;
    uint32_t begin = 0;
    uint32_t end = 0;
  };

  // `rows` outlives this. Rows begin at slot `first_slot` of the first chunk.
  RowSlots(const RowSpace* rows, uint32_t first_slot)
      : rows_(rows),
        first_slot_(first_slot),
        tail_slot_(first_slot),
        hand_(first_slot) {}

  // Makes room for so many rows. ResourceExhausted when there is no memory.
  absl::Status Reserve(size_t num_new);
  // A slot for a row, its contents any. REQUIRES: room was reserved.
  RowRef Take();
  // The row of this slot has left. REQUIRES: it held one.
  void GiveBack(RowRef ref);

  // Slots that have been used.
  size_t num_used() const { return end() - first_slot_; }
  // The next slot of a clock hand that goes round those. REQUIRES: there are
  // some.
  RowRef AdvanceHand();
  // They as ranges, in the order in which chunks were taken.
  std::vector<Range> UsedRanges() const;

  // Calls visit(RowRef, std::byte* row) for the rows in the next `max_slots`
  // slots from `cursor` on and moves it behind them; false when there are no
  // more. Rows that are created between two calls are visited or not.
  template <typename Visit>
  bool VisitRows(Cursor* cursor, uint32_t max_slots, Visit visit) const {
    if (cursor->chunk == 0) cursor->slot = std::max(cursor->slot, first_slot_);
    for (uint32_t i = 0; i < max_slots; ++i) {
      if (cursor->slot == rows_->rows_per_chunk()) {
        ++cursor->chunk;
        cursor->slot = 0;
      }
      if (cursor->chunk > tail_ || cursor->chunk >= chunks_.size() ||
          (cursor->chunk == tail_ && cursor->slot >= tail_slot_)) {
        return false;
      }
      const RowRef ref = rows_->RefOf(chunks_[cursor->chunk], cursor->slot++);
      std::byte* const row = rows_->At(ref);
      if (!RowLayout::Header(row).is_free()) visit(ref, row);
    }
    return true;
  }

  size_t heap_bytes() const { return chunks_.capacity() * sizeof(uint32_t); }

 private:
  // Counted from the beginning of the first chunk.
  size_t end() const { return tail_ * rows_->rows_per_chunk() + tail_slot_; }

  const RowSpace* const rows_;
  // Of the first chunk; slots before it are never used.
  const uint32_t first_slot_;
  // The next new slot is tail_slot_ of chunk number tail_, which is
  // chunks_.size() when all are full.
  uint32_t tail_slot_;
  size_t tail_ = 0;
  std::vector<uint32_t> chunks_;
  // The first free slot before the tail, and how many there are.
  RowRef free_ = kNoRow;
  size_t num_free_ = 0;
  // Number of the slot that the clock looks at next.
  size_t hand_;
};

}  // namespace oarlock::sparse_table

#endif  // OARLOCK_SPARSE_TABLE_ROWS_ROW_SLOTS_H_
