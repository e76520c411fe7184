#include "sparse_table/rows/row_cells.h"

#include "absl/status/statusor.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace oarlock::sparse_table {

absl::Status RowCells::Reserve(size_t num_new) {
  const size_t num_at_tail = num_new - std::min(num_new, num_free_);
  if (num_at_tail == 0) return absl::OkStatus();
  while ((chunks_.size() - tail_) * rows_->rows_per_chunk() <
         num_at_tail + tail_cell_) {
    OARLOCK_ASSIGN_OR_RETURN(const uint32_t chunk, rows_->arena().Allocate());
    chunks_.push_back(chunk);
  }
  return absl::OkStatus();
}

RowRef RowCells::Take() {
  if (free_ != kNoRow) {
    const RowRef ref = free_;
    free_ = RowRef{static_cast<uint32_t>(rows_->KeyAt(ref))};
    --num_free_;
    return ref;
  }
  OARLOCK_CHECK(tail_ < chunks_.size());
  const RowRef ref = rows_->RefOf(chunks_[tail_], tail_cell_);
  if (++tail_cell_ == rows_->rows_per_chunk()) {
    ++tail_;
    tail_cell_ = 0;
  }
  return ref;
}

void RowCells::GiveBack(RowRef ref) {
  RowHeader& header = RowLayout::Header(rows_->At(ref));
  OARLOCK_CHECK(!header.is_free());
  header.key = Key{static_cast<uint32_t>(free_)};
  header.packed = RowHeader::kFree;
  free_ = ref;
  ++num_free_;
}

RowRef RowCells::AdvanceHand() {
  if (hand_ >= end()) hand_ = first_cell_;
  const size_t rows_per_chunk = rows_->rows_per_chunk();
  const RowRef ref =
      rows_->RefOf(chunks_[hand_ / rows_per_chunk],
                   static_cast<uint32_t>(hand_ % rows_per_chunk));
  ++hand_;
  return ref;
}

std::vector<RowCells::Range> RowCells::UsedRanges() const {
  std::vector<Range> ranges;
  ranges.reserve(tail_ + 1);
  for (size_t i = 0; i <= tail_ && i < chunks_.size(); ++i) {
    const Range range = {
        .chunk = chunks_[i],
        .begin = i == 0 ? first_cell_ : 0,
        .end = i == tail_ ? tail_cell_ : rows_->rows_per_chunk()};
    if (range.begin < range.end) ranges.push_back(range);
  }
  return ranges;
}

}  // namespace oarlock::sparse_table
