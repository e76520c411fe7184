#include "sparse_table/partition.h"

#include "absl/status/statusor.h"
#include "base/check.h"
#include "base/mix.h"
#include "base/status_macros.h"

namespace oarlock::sparse_table {

absl::Status Partition::Reserve(size_t num_new) {
  OARLOCK_RETURN_IF_ERROR(index_.Reserve(num_new));
  return cells_.Reserve(num_new);
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

RowRef Partition::PlaceRow(const RowHeader& header, uint64_t mix) {
  const RowRef ref = cells_.Take();
  RowLayout::Header(rows_->At(ref)) = header;
  index_.Insert(mix, ref);
  return ref;
}

std::byte* Partition::CreateRow(Key key, uint64_t mix) {
  ++created_rows_;
  const RowRef ref = PlaceRow({.key = key}, mix);
  tracker_.AfterCreation(ref);
  return rows_->At(ref);
}

std::byte* Partition::PromoteRow(const RowHeader& header, uint64_t mix) {
  --tiers_.cold_rows;
  ++tiers_.promoted_rows;
  const RowRef ref = PlaceRow(header, mix);
  tracker_.AfterPromotion(ref, header);
  return rows_->At(ref);
}

void Partition::DemoteRow(RowRef ref, std::byte* row) {
  ++tiers_.disk_version;
  ++tiers_.cold_rows;
  ++tiers_.demoted_rows;
  tracker_.BeforeDemotion(ref, row);
  RemoveRow(ref, row);
}

void Partition::EvictRow(RowRef ref, std::byte* row) {
  ++tiers_.disk_version;
  tracker_.BeforeEviction(ref, row);
  RemoveRow(ref, row);
}

void Partition::ForgetColdRows(absl::Span<const Key> keys) {
  ++tiers_.disk_version;
  tiers_.cold_rows -= keys.size();
  tracker_.AfterColdEviction(keys);
}

void Partition::RemoveRow(RowRef ref, std::byte* row) {
  index_.Erase(Mix(RowLayout::Header(row).key), ref);
  cells_.GiveBack(ref);
}

FrozenPartition Partition::Frozen() {
  FrozenPartition frozen;
  frozen.version = version_;
  frozen.latest_touch = latest_touch_;
  frozen.rows = num_rows();
  frozen.created_rows = created_rows_;
  frozen.rejected_keys = rejected_keys_;
  frozen.windows.assign(windows_.windows().begin(), windows_.windows().end());
  if (sketch_ != nullptr) frozen.sketch = sketch_->Share();
  frozen.cells = cells_.UsedRanges();
  return frozen;
}

void Partition::Restore(const Restored& restored) {
  version_ = restored.version;
  latest_touch_ = restored.latest_touch;
  created_rows_ = restored.created_rows;
  rejected_keys_ = restored.rejected_keys;
  windows_.Restore(restored.windows);
}

size_t Partition::heap_bytes() const {
  return sizeof(*this) + index_.heap_bytes() + cells_.heap_bytes() +
         windows_.bytes() + tracker_.heap_bytes() +
         (sketch_ == nullptr ? 0 : sketch_->bytes());
}

}  // namespace oarlock::sparse_table
