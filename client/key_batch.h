// The distinct keys of a batch, in the order in which they travel.

#ifndef OARLOCK_CLIENT_KEY_BATCH_H_
#define OARLOCK_CLIENT_KEY_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "base/key_group.h"
#include "base/types.h"

namespace oarlock::client {

// Removes duplicates from the keys of a batch and groups what is left by
// partition. In click logs half of the keys of a batch repeat, so this halves
// the traffic. Reused from batch to batch; not thread-safe.
class KeyBatch {
 public:
  // Memory that Build works in; not thread-safe. It may serve any number of
  // batches, one after the other.
  class Scratch {
   public:
    // Keys that it has room for.
    size_t capacity() const { return displaced_.size(); }

   private:
    friend class KeyBatch;

    // An entry is empty if it is below first_entry_, else it is first_entry_ +
    // the index of a distinct key. So what earlier batches wrote is empty
    // without being cleared. Four entries a key; for a batch of 13,000 keys
    // they fit the second-level cache.
    std::vector<uint32_t> table_;
    uint32_t first_entry_ = 1;
    // The entries of the table that this batch uses, less 1: where a key is
    // stored depends on its batch alone.
    size_t mask_ = 0;

    // Of the distinct keys, in the order in which they were found. These arrays
    // only grow; the first num_distinct_ elements count.
    size_t num_distinct_ = 0;
    std::vector<Key> distinct_;
    std::vector<uint16_t> partition_;
    std::vector<uint32_t> position_;  // in keys_
    // Indices of keys that found another key in their place.
    std::vector<uint32_t> displaced_;
    std::vector<uint32_t> counts_;  // per partition
  };

  // Cost: a probe of an open-addressing table per key, then a counting sort of
  // the distinct keys by partition. A probe has no branch that depends on the
  // keys, and takes about 9 cycles while the table is in the second-level
  // cache. `partition_bits` in [0, 16]; fewer than 2^30 keys.
  void Build(absl::Span<const Key> keys, int partition_bits) {
    Build(keys, partition_bits, &scratch_);
  }
  void Build(absl::Span<const Key> keys, int partition_bits, Scratch* scratch);

  // Distinct keys; those of a partition are adjacent, partitions ascend.
  const std::vector<Key>& keys() const { return keys_; }
  // The partitions that occur, ascending.
  const std::vector<KeyGroup>& groups() const { return groups_; }
  // For each key given to Build, where it stands in keys().
  const std::vector<uint32_t>& row_of_key() const { return row_of_key_; }

 private:
  // Makes the table and the arrays large enough for `num_keys`.
  static void Prepare(size_t num_keys, Scratch* scratch);
  // Finds the distinct keys and their partitions, and for each key its index
  // among the distinct ones.
  void FindDistinct(absl::Span<const Key> keys, int partition_bits,
                    Scratch* scratch);
  // Moves the distinct keys to the places of their partitions.
  void GroupByPartition(int partition_bits, Scratch* scratch);

  std::vector<Key> keys_;
  std::vector<KeyGroup> groups_;
  std::vector<uint32_t> row_of_key_;
  // Of Build without another one.
  Scratch scratch_;
};

}  // namespace oarlock::client

#endif  // OARLOCK_CLIENT_KEY_BATCH_H_
