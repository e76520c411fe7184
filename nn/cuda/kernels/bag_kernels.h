// Kernels of embeddings: deduplicated rows are expanded into bags, and the
// gradients of bags are merged by row.
//
// Gradients are merged without atomics, so that every sum has a fixed order.
// The pairs (row, bag) of all keys are sorted by row, stably, four bits at a
// time. Then a thread per column of each tile of kTilePairs sorted pairs sums
// the runs of equal rows inside the tile. A second kernel joins the runs that
// extend over several tiles. So for a row that half of the batch shares, a
// thread adds one sum per tile, not one gradient per key.

#ifndef OARLOCK_NN_CUDA_KERNELS_BAG_KERNELS_H_
#define OARLOCK_NN_CUDA_KERNELS_BAG_KERNELS_H_

#include <cstddef>
#include <cstdint>

#include "nn/cuda/kernels/device_code.h"

namespace oarlock::nn::cuda {
inline namespace OARLOCK_KERNEL_SIDE {

// The offsets of bags in their array; see RowBags.
struct BagPlaces {
  size_t num_slots;
  size_t stride;
  size_t width;
  OARLOCK_DEVICE size_t operator()(size_t bag) const {
    return bag / num_slots * stride + bag % num_slots * width;
  }
};

// count = bags * width: out[bag] = the sum of its rows, or their mean.
struct SumBagsBody {
  size_t count;
  size_t row_dim;
  size_t column_begin;
  bool mean;
  BagPlaces places;
  const uint32_t* row_of_key;
  const uint32_t* offsets;
  const float* rows;
  float* out;
  OARLOCK_DEVICE void operator()(size_t i) const {
    const size_t bag = i / places.width, c = i % places.width;
    const size_t begin = offsets == nullptr ? bag : offsets[bag];
    const size_t end = offsets == nullptr ? bag + 1 : offsets[bag + 1];
    float sum = 0;
    for (size_t key = begin; key < end; ++key) {
      sum += rows[row_of_key[key] * row_dim + column_begin + c];
    }
    if (mean && end > begin) sum /= static_cast<float>(end - begin);
    out[places(bag) + c] = sum;
  }
};

// Writes the pairs (row, bag) of the keys, in the order of the keys; `count` is
// the number of bags.
struct PairsBody {
  size_t count;
  const uint32_t* row_of_key;
  const uint32_t* offsets;
  uint32_t* pair_rows;
  uint32_t* pair_bags;
  OARLOCK_DEVICE void operator()(size_t bag) const {
    const size_t begin = offsets == nullptr ? bag : offsets[bag];
    const size_t end = offsets == nullptr ? bag + 1 : offsets[bag + 1];
    for (size_t key = begin; key < end; ++key) {
      pair_rows[key] = row_of_key[key];
      pair_bags[key] = static_cast<uint32_t>(bag);
    }
  }
};

// ---- A stable sort by the digit at bit `shift`: count, scan, scatter ----

inline constexpr unsigned kDigits = 16;
inline constexpr unsigned kSortThreads = 128;
inline constexpr size_t kPairsPerThread = 8;
inline constexpr size_t kPairsPerBlock = kSortThreads * kPairsPerThread;

// The common part of CountDigits and ScatterPairs: counts[d * kSortThreads + t]
// = the number of thread t's pairs with digit d.
OARLOCK_DEVICE inline void CountOfThread(size_t count, const uint32_t* rows,
                                         unsigned shift, size_t block,
                                         unsigned t, uint32_t* counts) {
  for (unsigned d = 0; d < kDigits; ++d) counts[d * kSortThreads + t] = 0;
  const size_t begin = block * kPairsPerBlock + t * kPairsPerThread;
  for (size_t i = begin; i < begin + kPairsPerThread && i < count; ++i) {
    ++counts[(rows[i] >> shift & (kDigits - 1)) * kSortThreads + t];
  }
}

// digit_counts[d, block] = the number of the block's pairs with digit d.
struct CountDigitsKernel {
  static constexpr unsigned kThreads = kSortThreads;
  size_t count;
  unsigned shift;
  const uint32_t* rows;
  uint32_t* digit_counts;
  size_t blocks() const { return BlocksFor(count, kPairsPerBlock); }
  OARLOCK_DEVICE void operator()(const Block& block) const {
    OARLOCK_SHARED uint32_t counts[kDigits * kThreads];
    const size_t num_blocks = (count + kPairsPerBlock - 1) / kPairsPerBlock;
    block.ForThreads([&](unsigned t) {
      CountOfThread(count, rows, shift, block.index(), t, counts);
    });
    block.ForThreads([&](unsigned t) {
      if (t >= kDigits) return;
      uint32_t sum = 0;
      for (unsigned i = 0; i < kThreads; ++i) sum += counts[t * kThreads + i];
      digit_counts[t * num_blocks + block.index()] = sum;
    });
  }
};

// Replaces each of `count` numbers by the sum of those before it.
struct ScanKernel {
  static constexpr unsigned kThreads = 256;
  size_t count;
  uint32_t* values;
  size_t blocks() const { return count == 0 ? 0 : 1; }
  OARLOCK_DEVICE void operator()(const Block& block) const {
    OARLOCK_SHARED uint32_t sums[kThreads];
    const size_t share = (count + kThreads - 1) / kThreads;
    block.ForThreads([&](unsigned t) {
      uint32_t sum = 0;
      for (size_t i = t * share; i < (t + 1) * share && i < count; ++i) {
        sum += values[i];
      }
      sums[t] = sum;
    });
    block.ForThreads([&](unsigned t) {
      if (t != 0) return;
      uint32_t before = 0;
      for (unsigned i = 0; i < kThreads; ++i) {
        const uint32_t sum = sums[i];
        sums[i] = before;
        before += sum;
      }
    });
    block.ForThreads([&](unsigned t) {
      uint32_t before = sums[t];
      for (size_t i = t * share; i < (t + 1) * share && i < count; ++i) {
        const uint32_t value = values[i];
        values[i] = before;
        before += value;
      }
    });
  }
};

// Copies pairs to their sorted places. `places` [digit, block] is the first
// place for a digit's pairs of a block.
struct ScatterPairsKernel {
  static constexpr unsigned kThreads = kSortThreads;
  size_t count;
  unsigned shift;
  const uint32_t* places;
  const uint32_t* rows;
  const uint32_t* bags;
  uint32_t* sorted_rows;
  uint32_t* sorted_bags;
  size_t blocks() const { return BlocksFor(count, kPairsPerBlock); }
  OARLOCK_DEVICE void operator()(const Block& block) const {
    OARLOCK_SHARED uint32_t next[kDigits * kThreads];
    const size_t num_blocks = (count + kPairsPerBlock - 1) / kPairsPerBlock;
    block.ForThreads([&](unsigned t) {
      CountOfThread(count, rows, shift, block.index(), t, next);
    });
    block.ForThreads([&](unsigned t) {
      if (t >= kDigits) return;
      uint32_t place = places[t * num_blocks + block.index()];
      for (unsigned i = 0; i < kThreads; ++i) {
        const uint32_t own = next[t * kThreads + i];
        next[t * kThreads + i] = place;
        place += own;
      }
    });
    block.ForThreads([&](unsigned t) {
      const size_t begin = block.index() * kPairsPerBlock + t * kPairsPerThread;
      for (size_t i = begin; i < begin + kPairsPerThread && i < count; ++i) {
        const uint32_t digit = rows[i] >> shift & (kDigits - 1);
        const uint32_t place = next[digit * kThreads + t]++;
        sorted_rows[place] = rows[i];
        sorted_bags[place] = bags[i];
      }
    });
  }
};

// ---- Sums of sorted pairs ----

inline constexpr size_t kTilePairs = 32;

struct SortedPairs {
  size_t num_pairs;
  const uint32_t* rows;
  const uint32_t* bags;

  OARLOCK_DEVICE size_t num_tiles() const {
    return (num_pairs + kTilePairs - 1) / kTilePairs;
  }
  OARLOCK_DEVICE size_t End(size_t tile) const {
    const size_t end = (tile + 1) * kTilePairs;
    return end < num_pairs ? end : num_pairs;
  }
  // Whether the tile's first run begins in an earlier tile, and whether its
  // last run continues in the next tile.
  OARLOCK_DEVICE bool BeginsBefore(size_t tile) const {
    const size_t begin = tile * kTilePairs;
    return tile > 0 && rows[begin] == rows[begin - 1];
  }
  OARLOCK_DEVICE bool GoesOn(size_t tile) const {
    const size_t end = End(tile);
    return end < num_pairs && rows[end] == rows[end - 1];
  }
};

// The place of a row's gradient.
struct RowPlaces {
  size_t row_dim;
  size_t column_begin;
  float* drows;
  OARLOCK_DEVICE float* operator()(uint32_t row, size_t c) const {
    return drows + row * row_dim + column_begin + c;
  }
};

// The gradient by a bag, as it is added to each of the bag's rows.
struct BagGradient {
  BagPlaces places;
  bool mean;
  const uint32_t* offsets;
  const float* dout;
  OARLOCK_DEVICE float operator()(uint32_t bag, size_t c) const {
    const float gradient = dout[places(bag) + c];
    if (!mean || offsets == nullptr) return gradient;
    return gradient / static_cast<float>(offsets[bag + 1] - offsets[bag]);
  }
};

// count = tiles * width. Sums of runs inside a tile are added to their rows.
// The sum of a run that begins before the tile is written to heads [tiles,
// width]. The sum of a run that continues after the tile is written to tails
// [tiles, width]. A run that does both is a head.
struct SumTilesBody {
  size_t count;
  SortedPairs pairs;
  BagGradient gradient;
  RowPlaces to;
  float* heads;
  float* tails;
  OARLOCK_DEVICE void operator()(size_t i) const {
    const size_t tile = i / gradient.places.width;
    const size_t c = i % gradient.places.width;
    const size_t end = pairs.End(tile);
    bool is_head = pairs.BeginsBefore(tile);
    float sum = 0;
    for (size_t pair = tile * kTilePairs; pair < end; ++pair) {
      sum += gradient(pairs.bags[pair], c);
      const uint32_t row = pairs.rows[pair];
      if (pair + 1 < end && pairs.rows[pair + 1] == row) continue;
      if (is_head) {
        heads[i] = sum;
      } else if (pair + 1 == end && pairs.GoesOn(tile)) {
        tails[i] = sum;
      } else {
        *to(row, c) += sum;
      }
      is_head = false;
      sum = 0;
    }
  }
};

// count = tiles * width. For each run that begins inside a tile and continues
// after it, adds its tail and the heads that follow to its row.
struct JoinTilesBody {
  size_t count;
  SortedPairs pairs;
  size_t width;
  RowPlaces to;
  const float* heads;
  const float* tails;
  OARLOCK_DEVICE void operator()(size_t i) const {
    const size_t begin_tile = i / width, c = i % width;
    if (!pairs.GoesOn(begin_tile)) return;
    const uint32_t row = pairs.rows[pairs.End(begin_tile) - 1];
    const size_t begin = begin_tile * kTilePairs;
    if (pairs.BeginsBefore(begin_tile) && pairs.rows[begin] == row) return;
    float sum = tails[i];
    for (size_t tile = begin_tile + 1;; ++tile) {
      sum += heads[tile * width + c];
      if (pairs.rows[pairs.End(tile) - 1] != row || !pairs.GoesOn(tile)) break;
    }
    *to(row, c) += sum;
  }
};

// count = num_rows * row_dim; see CachedRows in math_backend.h.
struct GatherRowsBody {
  static constexpr uint32_t kNone = ~uint32_t{0};

  size_t count;
  size_t row_dim;
  const uint32_t* miss_of_row;
  const uint32_t* entry_of_row;
  const float* missed;
  float* entries;
  float* rows;
  OARLOCK_DEVICE void operator()(size_t at) const {
    const size_t row = at / row_dim, column = at % row_dim;
    const size_t entry = entry_of_row[row];
    const size_t number = miss_of_row[row];
    if (number == kNone) {
      rows[at] = entries[entry * row_dim + column];
      return;
    }
    const float value = missed[number * row_dim + column];
    rows[at] = value;
    if (entry != kNone) entries[entry * row_dim + column] = value;
  }
};

}  // namespace OARLOCK_KERNEL_SIDE
}  // namespace oarlock::nn::cuda

#endif  // OARLOCK_NN_CUDA_KERNELS_BAG_KERNELS_H_
