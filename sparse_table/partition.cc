#include "sparse_table/partition.h"

#include "absl/status/statusor.h"
#include "base/check.h"
#include "base/mix.h"
#include "base/status_macros.h"

namespace oarlock {

absl::Status Partition::Reserve(size_t num_new) {
  OARLOCK_RETURN_IF_ERROR(index_.Reserve(num_new));
  const size_t rows_per_chunk = rows_->rows_per_chunk();
  const size_t num_at_tail = num_new - std::min(num_new, num_free_);
  if (num_at_tail == 0) return absl::OkStatus();
  while ((chunks_.size() - tail_) * rows_per_chunk < num_at_tail + tail_slot_) {
    OARLOCK_ASSIGN_OR_RETURN(const uint32_t chunk, rows_->arena().Allocate());
    chunks_.push_back(chunk);
  }
  return absl::OkStatus();
}

absl::Status Partition::ReserveRows(absl::Span<const Key> keys) {
  // As if all were new: nearly always free, since what is not used now is used
  // by later rows.
  if (Reserve(keys.size()).ok()) return absl::OkStatus();
  size_t num_new = 0;
  for (const Key key : keys) {
    if (Find(key, Mix(key)) == kNoRow) ++num_new;
  }
  return num_new == 0 ? absl::OkStatus() : Reserve(num_new);
}

std::byte* Partition::PlaceRow(Key key, uint64_t mix) {
  RowRef ref = free_;
  if (ref != kNoRow) {
    free_ = RowRef{static_cast<uint32_t>(rows_->KeyAt(ref))};
    --num_free_;
  } else {
    OARLOCK_CHECK(tail_ < chunks_.size());
    ref = rows_->RefOf(chunks_[tail_], tail_slot_);
    if (++tail_slot_ == rows_->rows_per_chunk()) {
      ++tail_;
      tail_slot_ = 0;
    }
  }
  std::byte* const row = rows_->At(ref);
  RowLayout::Header(row) = RowHeader{.key = key};
  index_.Insert(mix, ref);
  return row;
}

std::byte* Partition::CreateRow(Key key, uint64_t mix) {
  ++created_rows_;
  return PlaceRow(key, mix);
}

std::byte* Partition::PromoteRow(Key key, uint64_t mix) {
  --tiers_.cold_rows;
  ++tiers_.promoted_rows;
  return PlaceRow(key, mix);
}

void Partition::DemoteRow(RowRef ref, std::byte* row) {
  ++tiers_.disk_epoch;
  ++tiers_.cold_rows;
  ++tiers_.demoted_rows;
  RemoveRow(ref, row);
}

void Partition::EvictRow(RowRef ref, std::byte* row) {
  ++tiers_.disk_epoch;
  RemoveRow(ref, row);
}

void Partition::CountEvictedColdRows(size_t num_rows) {
  ++tiers_.disk_epoch;
  tiers_.cold_rows -= num_rows;
}

void Partition::RemoveRow(RowRef ref, std::byte* row) {
  RowHeader& header = RowLayout::Header(row);
  OARLOCK_CHECK(!header.is_free());
  index_.Erase(Mix(header.key), ref);
  header.key = Key{static_cast<uint32_t>(free_)};
  header.packed = RowHeader::kFree;
  free_ = ref;
  ++num_free_;
}

RowRef Partition::AdvanceHand() {
  if (hand_ >= num_slots()) hand_ = 0;
  const size_t rows_per_chunk = rows_->rows_per_chunk();
  const size_t slot = first_slot_ + hand_++;
  return rows_->RefOf(chunks_[slot / rows_per_chunk],
                      static_cast<uint32_t>(slot % rows_per_chunk));
}

size_t Partition::heap_bytes() const {
  return sizeof(*this) + index_.heap_bytes() +
         chunks_.capacity() * sizeof(uint32_t) + windows_.bytes() +
         (sketch_ == nullptr ? 0 : sketch_->bytes());
}

}  // namespace oarlock
