#include "data/batch.h"

namespace oarlock::data {
namespace {

// Sets the offsets of `batch`, each of whose slots has exactly one key.
void MakeOffsets(size_t num_slots, Batch* batch) {
  const size_t cells = batch->num_examples * num_slots;
  batch->offsets.resize(cells + 1);
  for (size_t i = 0; i <= cells; ++i) {
    batch->offsets[i] = static_cast<uint32_t>(i);
  }
}

}  // namespace

void AppendExample(const DataSchema& schema, const Batch& from, size_t example,
                   Batch* to) {
  const auto num_slots = static_cast<size_t>(schema.num_slots);
  const auto num_dense = static_cast<size_t>(schema.num_dense);
  const size_t cell = example * num_slots;
  const size_t begin = from.offsets.empty() ? cell : from.offsets[cell];
  const size_t end =
      from.offsets.empty() ? cell + num_slots : from.offsets[cell + num_slots];
  if (!from.offsets.empty() && to->offsets.empty()) MakeOffsets(num_slots, to);
  if (!from.weights.empty() && to->weights.empty()) {
    to->weights.resize(to->keys.size(), 1.0f);
  }
  if (!to->offsets.empty()) {
    const size_t base = to->offsets.back();
    for (size_t s = 1; s <= num_slots; ++s) {
      const size_t stop =
          from.offsets.empty() ? cell + s : from.offsets[cell + s];
      to->offsets.push_back(static_cast<uint32_t>(base + stop - begin));
    }
  }
  if (!from.weights.empty()) {
    to->weights.insert(to->weights.end(), from.weights.begin() + begin,
                       from.weights.begin() + end);
  } else if (!to->weights.empty()) {
    to->weights.resize(to->weights.size() + end - begin, 1.0f);
  }
  ++to->num_examples;
  to->labels.push_back(from.labels[example]);
  to->dense.insert(to->dense.end(), from.dense.begin() + example * num_dense,
                   from.dense.begin() + (example + 1) * num_dense);
  to->keys.insert(to->keys.end(), from.keys.begin() + begin,
                  from.keys.begin() + end);
}

void AddToRanges(uint32_t source, uint64_t position, Batch* batch) {
  if (!batch->ranges.empty()) {
    ExampleRange& last = batch->ranges.back();
    if (last.source == source && last.end == position) {
      ++last.end;
      return;
    }
  }
  batch->ranges.push_back(
      {.source = source, .begin = position, .end = position + 1});
}

}  // namespace oarlock::data
