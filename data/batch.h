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

// What every example of a data set has.
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
  // What each key counts: its row is multiplied by this before a slot's rows
  // are added up. Empty: 1 for all.
  std::vector<float> weights;  // [keys]
  // Where the examples come from, in their order.
  std::vector<ExampleRange> ranges;

  void Clear() {
    num_examples = 0;
    labels.clear();
    dense.clear();
    keys.clear();
    offsets.clear();
    weights.clear();
    ranges.clear();
  }
};

// Appends example number `example` of `from` to `to`, which has the same
// schema, without ranges.
void AppendExample(const DataSchema& schema, const Batch& from, size_t example,
                   Batch* to);

// Example `position` of `source` belongs to the batch: a range grows by one or
// begins.
void AddToRanges(uint32_t source, uint64_t position, Batch* batch);

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_BATCH_H_
