#include "worker/client/key_batch.h"

#include <algorithm>
#include <bit>

#include "base/mix.h"

namespace oarlock {

void KeyBatch::Build(absl::Span<const Key> keys, int partition_bits) {
  FindDistinct(keys, partition_bits);
  GroupByPartition(partition_bits);
}

void KeyBatch::FindDistinct(absl::Span<const Key> keys, int partition_bits) {
  // At most half full.
  const size_t capacity = std::bit_ceil(keys.size() * 2 + 16);
  // The builds' numbers start anew with an empty table.
  if (table_.size() < capacity || build_ == UINT32_MAX) {
    table_.assign(std::max(capacity, table_.size()), Entry{});
    build_ = 0;
  }
  ++build_;
  const size_t mask = table_.size() - 1;
  distinct_.clear();
  partition_.clear();
  row_of_key_.resize(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    const uint64_t mix = Mix(keys[i]);
    size_t slot = mix & mask;
    while (table_[slot].build == build_ &&
           distinct_[table_[slot].index] != keys[i]) {
      slot = (slot + 1) & mask;
    }
    Entry& entry = table_[slot];
    if (entry.build != build_) {
      entry = {build_, static_cast<uint32_t>(distinct_.size())};
      distinct_.push_back(keys[i]);
      partition_.push_back(PartitionOfMix(mix, partition_bits).value());
    }
    row_of_key_[i] = entry.index;
  }
}

void KeyBatch::GroupByPartition(int partition_bits) {
  const size_t num_partitions = size_t{1} << partition_bits;
  counts_.assign(num_partitions, 0);
  for (uint32_t partition : partition_) ++counts_[partition];
  groups_.clear();
  uint32_t begin = 0;
  for (uint32_t p = 0; p < num_partitions; ++p) {
    const uint32_t count = counts_[p];
    if (count != 0) groups_.push_back({PartitionIndex(p), count});
    counts_[p] = begin;
    begin += count;
  }
  keys_.resize(distinct_.size());
  position_.resize(distinct_.size());
  for (size_t i = 0; i < distinct_.size(); ++i) {
    const uint32_t position = counts_[partition_[i]]++;
    position_[i] = position;
    keys_[position] = distinct_[i];
  }
  for (uint32_t& row : row_of_key_) row = position_[row];
}

}  // namespace oarlock
