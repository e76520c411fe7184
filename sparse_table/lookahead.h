// The software pipeline of a batch, shared by pull and push.
//
// Random rows cost a cache miss in the index and another one in the rows. Both
// are asked for long before they are used, in three stages that run over the
// keys of a batch one behind the other:
//
//   1. mix of key i + 32, prefetch of its index bucket   no lock
//   2. find row of key i, prefetch of its lines          partition's lock
//   3. copy or update the row of key i - 32              partition's lock
//
// The unit is a block of at most 16 keys of one group. Stage 2 may be a few
// blocks ahead of stage 3, hence in a later group, so a thread holds the locks
// of the groups in between, always taken in ascending order.

#ifndef OARLOCK_SPARSE_TABLE_LOOKAHEAD_H_
#define OARLOCK_SPARSE_TABLE_LOOKAHEAD_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "base/check.h"
#include "base/key_group.h"
#include "base/mix.h"
#include "base/types.h"
#include "sparse_table/partition.h"
#include "sparse_table/rows/row_space.h"

namespace oarlock::sparse_table {

// Keys of one group: keys[first, first + count) of the batch.
struct KeyBlock {
  static constexpr uint32_t kMaxKeys = 16;

  PartitionIndex partition;
  uint32_t group = 0;
  size_t first = 0;
  uint32_t count = 0;
  bool begins_group = false;
  bool ends_group = false;
};

// Cuts groups into blocks; a group without keys gives one empty block.
class BlockCursor {
 public:
  explicit BlockCursor(absl::Span<const KeyGroup> groups) : groups_(groups) {}

  bool Done() const { return group_ == groups_.size(); }

  // REQUIRES: !Done().
  KeyBlock Next() {
    const KeyGroup& group = groups_[group_];
    KeyBlock block;
    block.partition = group.partition;
    block.group = static_cast<uint32_t>(group_);
    block.first = first_ + taken_;
    block.count = std::min(KeyBlock::kMaxKeys, group.num_keys - taken_);
    block.begins_group = taken_ == 0;
    taken_ += block.count;
    block.ends_group = taken_ == group.num_keys;
    if (block.ends_group) FinishGroup(group.num_keys);
    return block;
  }

  // Skips the rest of the group that `block`, the latest one, is of.
  void SkipGroup(const KeyBlock& block) {
    if (!block.ends_group) FinishGroup(groups_[group_].num_keys);
  }

  // No more blocks.
  void Stop() { group_ = groups_.size(); }

 private:
  void FinishGroup(uint32_t num_keys) {
    first_ += num_keys;
    taken_ = 0;
    ++group_;
  }

  absl::Span<const KeyGroup> groups_;
  size_t group_ = 0;
  // Keys of earlier groups; keys taken of this one.
  size_t first_ = 0;
  uint32_t taken_ = 0;
};

// Blocks between stages 2 and 3, first in first out.
class BlockQueue {
 public:
  // Keys whose rows are on their way.
  static constexpr uint32_t kDistanceKeys = 32;
  // Hence the most locks that a thread holds.
  static constexpr uint32_t kMaxBlocks = 4;

  bool empty() const { return size_ == 0; }
  bool WantsMore() const {
    return num_keys_ < kDistanceKeys && size_ < kMaxBlocks;
  }
  void Push(const KeyBlock& block) {
    OARLOCK_CHECK(size_ < kMaxBlocks);
    blocks_[(first_ + size_++) % kMaxBlocks] = block;
    num_keys_ += block.count;
  }
  KeyBlock Pop() {
    OARLOCK_CHECK(size_ > 0);
    const KeyBlock block = blocks_[first_];
    first_ = (first_ + 1) % kMaxBlocks;
    --size_;
    num_keys_ -= block.count;
    return block;
  }

 private:
  std::array<KeyBlock, kMaxBlocks> blocks_;
  uint32_t first_ = 0;
  uint32_t size_ = 0;
  uint32_t num_keys_ = 0;
};

// Stage 1, and what the stages hand on for each key. Remembers a bounded number
// of adjacent keys: when a block does not follow the one before, nothing may be
// between stages 2 and 3.
class Lookahead {
 public:
  using Partitions = std::vector<std::unique_ptr<Partition>>;

  // Keys whose buckets are on their way.
  static constexpr size_t kDistanceKeys = 32;

  Lookahead(const Partitions& partitions, int partition_bits, const Key* keys,
            size_t num_keys)
      : partitions_(partitions),
        partition_bits_(partition_bits),
        keys_(keys),
        num_keys_(num_keys) {}

  // Sees to the mixes of the block and of the keys behind it.
  void Advance(const KeyBlock& block) {
    const size_t end =
        std::min(num_keys_, block.first + block.count + kDistanceKeys);
    for (hashed_ = std::max(hashed_, block.first); hashed_ < end; ++hashed_) {
      const uint64_t mix = Mix(keys_[hashed_]);
      mixes_[hashed_ % kRing] = mix;
      partitions_[PartitionOfMix(mix, partition_bits_).value()]->PrefetchBucket(
          mix);
    }
  }

  // Of key number i: its mix, and the candidate that stage 2 found.
  uint64_t mix(size_t i) const { return mixes_[i % kRing]; }
  RowRef& row(size_t i) { return rows_[i % kRing]; }

 private:
  // What may be in flight at once, rounded up to a power of two.
  static constexpr size_t kRing = 128;
  static_assert(kRing >= kDistanceKeys + BlockQueue::kDistanceKeys +
                             2 * KeyBlock::kMaxKeys);

  const Partitions& partitions_;
  const int partition_bits_;
  const Key* const keys_;
  const size_t num_keys_;
  size_t hashed_ = 0;
  std::array<uint64_t, kRing> mixes_;
  std::array<RowRef, kRing> rows_;
};

}  // namespace oarlock::sparse_table

#endif  // OARLOCK_SPARSE_TABLE_LOOKAHEAD_H_
