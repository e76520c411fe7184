#include "sparse_table/change_tracker.h"

namespace oarlock {
namespace {

// The smallest header word of this version.
constexpr uint64_t FirstWord(uint64_t version) {
  return version << (RowHeader::kTouchBits + RowHeader::kFlagBits);
}

}  // namespace

void ChangeTracker::Freeze(SaveKind kind, const PackedRows& packing,
                           FrozenPartition frozen) {
  OARLOCK_CHECK(cut_ == nullptr);
  const bool known = unchanged_below_ != 0 && !forgotten_;
  const bool full = kind == SaveKind::kFull || !known;
  const uint64_t end = FirstWord(frozen.version + 1);
  const PartitionCut::Words words = {
      .begin = full ? FirstWord(1) : unchanged_below_, .end = end};
  RowChanges changes = std::exchange(changes_, {});
  if (full) changes = {};
  max_changes_ = std::max(kMinChanges, frozen.rows);
  forgotten_ = false;
  unchanged_below_ = end;
  cut_ = std::make_unique<PartitionCut>(full, words, std::move(changes),
                                        packing, std::move(frozen));
}

void ChangeTracker::Forget() {
  forgotten_ = true;
  changes_ = {};
  // While a cut is saved the question goes on being asked for pre-images.
  if (cut_ == nullptr) unchanged_below_ = 0;
}

}  // namespace oarlock
