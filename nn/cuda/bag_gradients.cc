#include "nn/cuda/bag_gradients.h"

#include <bit>
#include <limits>
#include <utility>

#include "base/check.h"

namespace oarlock::nn::cuda {

SortedPairs BagGradients::Sort(const RowBags& bags) {
  const size_t num_keys = bags.num_keys;
  constexpr unsigned kDigitBits = std::bit_width(kDigits) - 1;
  uint32_t* const memory = pairs_.Get<uint32_t>(4 * num_keys);
  uint32_t* rows = memory;
  uint32_t* pair_bags = rows + num_keys;
  uint32_t* sorted_rows = pair_bags + num_keys;
  uint32_t* sorted_bags = sorted_rows + num_keys;
  device_.Run(
      ForEach<PairsBody>{{bags.num_examples * bags.num_slots, bags.row_of_key,
                          bags.offsets, rows, pair_bags}});
  const unsigned bits = std::bit_width(bags.num_rows - 1);
  const size_t num_counts = kDigits * BlocksFor(num_keys, kPairsPerBlock);
  uint32_t* const counts = counts_.Get<uint32_t>(num_counts);
  for (unsigned shift = 0; shift < bits; shift += kDigitBits) {
    device_.Run(CountDigitsKernel{num_keys, shift, rows, counts});
    device_.Run(ScanKernel{num_counts, counts});
    device_.Run(ScatterPairsKernel{num_keys, shift, counts, rows, pair_bags,
                                   sorted_rows, sorted_bags});
    std::swap(rows, sorted_rows);
    std::swap(pair_bags, sorted_bags);
  }
  return {num_keys, rows, pair_bags};
}

void BagGradients::Add(const RowBags& bags, const float* dout, float* drows) {
  const size_t num_keys = bags.num_keys;
  if (num_keys == 0 || bags.width == 0) return;
  OARLOCK_CHECK(num_keys <= std::numeric_limits<uint32_t>::max());
  OARLOCK_CHECK(bags.num_rows > 0);
  const SortedPairs pairs = Sort(bags);
  const size_t num_sums = BlocksFor(num_keys, kTilePairs) * bags.width;
  float* const heads = sums_.Get<float>(2 * num_sums);
  float* const tails = heads + num_sums;
  const RowPlaces to = {bags.row_dim, bags.column_begin, drows};
  device_.Run(ForEach<SumTilesBody>{
      {num_sums,
       pairs,
       {{bags.num_slots, bags.ExampleStride(), bags.width},
        bags.mean,
        bags.offsets,
        dout},
       to,
       heads,
       tails}});
  device_.Run(
      ForEach<JoinTilesBody>{{num_sums, pairs, bags.width, to, heads, tails}});
}

}  // namespace oarlock::nn::cuda
