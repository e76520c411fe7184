#include "sparse_table/cut/change_tracker.h"

namespace oarlock::sparse_table {
namespace {

// The smallest header word of this version.
constexpr uint64_t FirstWord(uint64_t version) {
  return version << (RowHeader::kTouchBits + RowHeader::kFlagBits);
}

}  // namespace

void ChangeTracker::Freeze(SaveKind kind, const PackedRows& packing,
                           FrozenPartition frozen) {
  OARLOCK_CHECK(cut_ == nullptr);
  const bool known = unchanged_below_ != 0 && !forgotten();
  const bool full = kind == SaveKind::kFull || !known;
  const uint64_t end = FirstWord(frozen.version + 1);
  const PartitionCut::Words words = {
      .begin = full ? FirstWord(1) : unchanged_below_, .end = end};
  RowChanges changes = std::exchange(changes_, {});
  if (full) changes = {};
  num_changes_ = 0;
  max_changes_ = std::max(kMinChanges, frozen.rows);
  unchanged_below_ = end;
  cut_ = std::make_unique<PartitionCut>(full, words, std::move(changes),
                                        packing, std::move(frozen));
}

void ChangeTracker::MakeRoom() {
  // A row that stays where it is changes for the first time once.
  if (changes_.demoted.size() + changes_.evicted.size() == 0) return Forget();
  changes_.cells.RemoveRepeated();
  changes_.demoted.RemoveRepeated();
  changes_.evicted.RemoveRepeated();
  num_changes_ =
      changes_.cells.size() + changes_.demoted.size() + changes_.evicted.size();
  if (num_changes_ > max_changes_ / 2) Forget();
}

void ChangeTracker::Forget() {
  max_changes_ = 0;
  changes_ = {};
  // While a cut is saved the question goes on being asked for pre-images.
  if (cut_ == nullptr) unchanged_below_ = 0;
}

}  // namespace oarlock::sparse_table
