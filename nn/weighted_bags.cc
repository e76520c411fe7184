#include "nn/weighted_bags.h"

#include <algorithm>
#include <cstddef>

namespace oarlock::nn {
namespace {

// Calls visit(key, offset of its row, offset of its bag in the output) for all
// keys.
template <typename Visit>
void ForEachKey(const RowBags& bags, const Visit& visit) {
  for (size_t bag = 0; bag < bags.num_examples * bags.num_slots; ++bag) {
    const size_t at = bag / bags.num_slots * bags.ExampleStride() +
                      bag % bags.num_slots * bags.width;
    const size_t begin = bags.offsets == nullptr ? bag : bags.offsets[bag];
    const size_t end =
        bags.offsets == nullptr ? bag + 1 : bags.offsets[bag + 1];
    for (size_t key = begin; key < end; ++key) {
      visit(key, bags.row_of_key[key] * bags.row_dim + bags.column_begin, at);
    }
  }
}

}  // namespace

void SumWeightedBags(const RowBags& bags, const float* weights,
                     const float* rows, float* out) {
  for (size_t e = 0; e < bags.num_examples; ++e) {
    std::fill_n(out + e * bags.ExampleStride(), bags.num_slots * bags.width,
                0.0f);
  }
  ForEachKey(bags, [&](size_t key, size_t row, size_t at) {
    for (size_t c = 0; c < bags.width; ++c) {
      out[at + c] += weights[key] * rows[row + c];
    }
  });
}

void SumWeightedBagsBackward(const RowBags& bags, const float* weights,
                             const float* dout, float* drows) {
  ForEachKey(bags, [&](size_t key, size_t row, size_t at) {
    for (size_t c = 0; c < bags.width; ++c) {
      drows[row + c] += weights[key] * dout[at + c];
    }
  });
}

}  // namespace oarlock::nn
