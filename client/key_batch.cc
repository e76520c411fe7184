#include "client/key_batch.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "base/mix.h"

namespace oarlock::client {
namespace {

// Returns `value`, but hides from the compiler how it was computed. So the
// compiler does not make a branch of that in the code that follows.
uint32_t WithoutBranch(uint32_t value) {
  asm("" : "+r"(value));
  return value;
}

}  // namespace

void KeyBatch::Build(absl::Span<const Key> keys, int partition_bits,
                     Scratch* scratch) {
  Prepare(keys.size(), scratch);
  FindDistinct(keys, partition_bits, scratch);
  GroupByPartition(partition_bits, scratch);
}

void KeyBatch::Prepare(size_t num_keys, Scratch* scratch) {
  constexpr size_t kEntriesPerKey = 4;
  constexpr size_t kFewestEntries = 16;
  constexpr size_t kMaxKeys = size_t{1} << 30;
  OARLOCK_CHECK(num_keys < kMaxKeys);
  const size_t num_entries =
      std::bit_ceil(num_keys * kEntriesPerKey + kFewestEntries);
  if (scratch->table_.size() < num_entries ||
      scratch->first_entry_ > UINT32_MAX - kMaxKeys) {
    scratch->table_.assign(std::max(num_entries, scratch->table_.size()), 0);
    scratch->first_entry_ = 1;
  }
  scratch->mask_ = num_entries - 1;
  // One element more: an element is written before it is known to count.
  if (scratch->distinct_.size() <= num_keys) {
    scratch->distinct_.resize(num_keys + 1);
    scratch->partition_.resize(num_keys + 1);
    scratch->position_.resize(num_keys + 1);
    scratch->displaced_.resize(num_keys + 1);
  }
}

// Whether a key is new is as good as random. A branch on that would be
// mispredicted for every other key of a click log. Instead every key is written
// as if it were new, to be overwritten by the next if it was not. Keys whose
// place is taken by another key are left for a second loop, because they would
// be mispredicted too.
void KeyBatch::FindDistinct(absl::Span<const Key> keys, int partition_bits,
                            Scratch* scratch) {
  row_of_key_.resize(keys.size());
  // Local variables: for the compiler, a store might change a member.
  uint32_t* const table = scratch->table_.data();
  Key* const distinct = scratch->distinct_.data();
  uint16_t* const partition = scratch->partition_.data();
  uint32_t* const displaced = scratch->displaced_.data();
  uint32_t* const row_of_key = row_of_key_.data();
  const size_t mask = scratch->mask_;
  const uint32_t first_entry = scratch->first_entry_;
  uint32_t num_distinct = 0;
  size_t num_displaced = 0;

  const auto write_as_new = [&](Key key, uint64_t mix) {
    distinct[num_distinct] = key;
    partition[num_distinct] =
        static_cast<uint16_t>(PartitionOfMix(mix, partition_bits).value());
  };
  // What an entry holds: the index of a distinct key, or nothing. An empty
  // entry is for the next distinct key.
  struct Found {
    uint32_t index;
    bool is_new;
  };
  const auto look_at = [&](size_t entry) -> Found {
    const uint32_t index = table[entry] - first_entry;
    return {WithoutBranch(std::min(index, num_distinct)),
            index >= num_distinct};
  };
  const auto take = [&](size_t entry, const Found& found, size_t i) {
    table[entry] = first_entry + found.index;
    row_of_key[i] = found.index;
    num_distinct += found.is_new;
  };

  for (size_t i = 0; i < keys.size(); ++i) {
    const uint64_t mix = Mix(keys[i]);
    write_as_new(keys[i], mix);
    const size_t entry = mix & mask;
    const Found found = look_at(entry);
    displaced[num_displaced] = static_cast<uint32_t>(i);
    num_displaced += distinct[found.index] != keys[i];
    // For a displaced key this writes what is there already.
    take(entry, found, i);
  }
  for (size_t d = 0; d < num_displaced; ++d) {
    const size_t i = displaced[d];
    const uint64_t mix = Mix(keys[i]);
    write_as_new(keys[i], mix);
    size_t entry = mix & mask;
    Found found;
    do {
      entry = (entry + 1) & mask;
      found = look_at(entry);
    } while (distinct[found.index] != keys[i]);
    take(entry, found, i);
  }
  scratch->num_distinct_ = num_distinct;
  scratch->first_entry_ += num_distinct;
}

void KeyBatch::GroupByPartition(int partition_bits, Scratch* scratch) {
  const size_t num_distinct = scratch->num_distinct_;
  std::vector<uint32_t>& counts = scratch->counts_;
  const std::vector<uint16_t>& partition = scratch->partition_;
  std::vector<uint32_t>& positions = scratch->position_;
  const size_t num_partitions = size_t{1} << partition_bits;
  counts.assign(num_partitions, 0);
  for (size_t i = 0; i < num_distinct; ++i) ++counts[partition[i]];
  groups_.clear();
  uint32_t begin = 0;
  for (uint32_t p = 0; p < num_partitions; ++p) {
    const uint32_t count = counts[p];
    if (count != 0) groups_.push_back({PartitionIndex(p), count});
    counts[p] = begin;
    begin += count;
  }
  keys_.resize(num_distinct);
  for (size_t i = 0; i < num_distinct; ++i) {
    const uint32_t position = counts[partition[i]]++;
    positions[i] = position;
    keys_[position] = scratch->distinct_[i];
  }
  for (uint32_t& row : row_of_key_) row = positions[row];
}

}  // namespace oarlock::client
