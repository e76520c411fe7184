// A batch of parsed examples.

#ifndef OARLOCK_DATA_BATCH_H_
#define OARLOCK_DATA_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/types.h"

namespace oarlock::data {

// Examples [begin, end) of source number `source` of the input list.
struct ExampleRange {
  uint32_t source = 0;
  uint64_t begin = 0;
  uint64_t end = 0;
};

// The number of features in each example of a data set.
struct DataSchema {
  // Dense features.
  int num_dense = 0;
  // Categorical slots.
  int num_slots = 0;
};

// Reused from batch to batch: Clear() keeps the memory.
struct Batch {
  size_t num_examples = 0;
  std::vector<float> labels;  // [num_examples]
  std::vector<float> dense;   // [num_examples, num_dense]
  // The keys of all slots, example after example, slot after slot. Slot s of
  // example i holds keys[offsets[i * num_slots + s]] up to, not including,
  // keys[offsets[i * num_slots + s + 1]]. When every slot of every example
  // holds exactly one key, `offsets` is empty and the keys are
  // [num_examples, num_slots].
  std::vector<Key> keys;
  std::vector<uint32_t> offsets;
  // The weight of each key: the key's row is multiplied by it before the rows
  // of a slot are added up. Empty: all weights are 1.
  std::vector<float> weights;  // [keys]
  // Where the examples come from, in the order of the examples.
  std::vector<ExampleRange> ranges;
  // Rows of columnar files that were decoded meanwhile.
  uint64_t num_decoded_rows = 0;

  void Clear() {
    num_examples = 0;
    labels.clear();
    dense.clear();
    keys.clear();
    offsets.clear();
    weights.clear();
    ranges.clear();
    num_decoded_rows = 0;
  }
};

// Appends example number `example` of `from` to `to`. Both batches have the
// schema `schema`. Ranges are not copied.
void AppendExample(const DataSchema& schema, const Batch& from, size_t example,
                   Batch* to);

// Adds example `position` of `source` to the ranges of the batch. It extends
// the last range where it follows that range, else it starts a new range.
void AddToRanges(uint32_t source, uint64_t position, Batch* batch);

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_BATCH_H_
