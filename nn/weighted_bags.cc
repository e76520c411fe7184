#include "nn/weighted_bags.h"

#include <algorithm>
#include <cstddef>
#include <vector>

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

// Calls visit(example, first key, end of keys) for bags of several keys.
template <typename Visit>
void ForEachBagOfSeveral(const RowBags& bags, const Visit& visit) {
  if (bags.offsets == nullptr) return;
  for (size_t bag = 0; bag < bags.num_examples * bags.num_slots; ++bag) {
    const size_t begin = bags.offsets[bag], end = bags.offsets[bag + 1];
    if (end - begin > 1) visit(bag / bags.num_slots, begin, end);
  }
}

// What the row of a key is multiplied by, in a bag of `num_keys`.
float FactorOf(const RowBags& bags, const float* weights, size_t key,
               size_t num_keys) {
  const float weight = weights == nullptr ? 1 : weights[key];
  return bags.mean ? weight / static_cast<float>(num_keys) : weight;
}

// Adds the rows of the bag, times their factors, to sums[width], which are set
// to 0 first. The sum of their squares.
double SumBag(const RowBags& bags, const float* weights, const float* rows,
              size_t begin, size_t end, std::vector<double>* sums) {
  sums->assign(bags.width, 0);
  double squares = 0;
  for (size_t key = begin; key < end; ++key) {
    const float factor = FactorOf(bags, weights, key, end - begin);
    const float* const row =
        rows + bags.row_of_key[key] * bags.row_dim + bags.column_begin;
    for (size_t c = 0; c < bags.width; ++c) {
      const double x = factor * row[c];
      (*sums)[c] += x;
      squares += x * x;
    }
  }
  return squares;
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

void SumPairsInBags(const RowBags& bags, const float* weights,
                    const float* rows, float* out) {
  std::fill_n(out, bags.num_examples, 0.0f);
  std::vector<double> sums;
  ForEachBagOfSeveral(bags, [&](size_t example, size_t begin, size_t end) {
    const double squares = SumBag(bags, weights, rows, begin, end, &sums);
    double total = 0;
    for (const double sum : sums) total += sum * sum;
    out[example] += static_cast<float>((total - squares) / 2);
  });
}

void SumPairsInBagsBackward(const RowBags& bags, const float* weights,
                            const float* rows, const float* dout,
                            float* drows) {
  std::vector<double> sums;
  ForEachBagOfSeveral(bags, [&](size_t example, size_t begin, size_t end) {
    SumBag(bags, weights, rows, begin, end, &sums);
    for (size_t key = begin; key < end; ++key) {
      const float factor = FactorOf(bags, weights, key, end - begin);
      const size_t at = bags.row_of_key[key] * bags.row_dim + bags.column_begin;
      for (size_t c = 0; c < bags.width; ++c) {
        drows[at + c] += static_cast<float>(dout[example] * factor *
                                            (sums[c] - factor * rows[at + c]));
      }
    }
  });
}

}  // namespace oarlock::nn
