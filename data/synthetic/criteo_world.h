// The planted model behind generated Criteo data: how rows are drawn, and the
// click probability of each row.
//
// Columns are independent of each other, except for groups of columns that are
// missing together, as in the real data. A category's rank r (0 is the most
// frequent) has a probability proportional to (r + 1 + shift)^-exponent. The
// constants are fitted to the real data: a sample of 137,139 rows has the same
// number of distinct values and the same frequency of the top value. Ranks
// below kHeadRanks are drawn exactly, the tail by inverting the integral. An
// integer is round(exp(t) - 1), at least 0, for normal t.
//
// log odds = intercept + sum of main effects + sum of interactions
//
// The main effect of a category is a random number per value. The main effect
// of an integer is linear in log(1 + x). Both have a random number for
// "missing". Rare values (rank kHeadRanks and up) have 0 before the effect is
// centered, since a model could not learn anything about them. An interaction
// is the product of two such effects, of two columns that are not in the same
// missing group. Every effect has mean 0 and variance 1 under the column's
// distribution before it is scaled. So an interaction has no correlation with
// any function of one column. Therefore an additive (linear, one-hot) model can
// learn only the main effects.

#ifndef OARLOCK_DATA_SYNTHETIC_CRITEO_WORLD_H_
#define OARLOCK_DATA_SYNTHETIC_CRITEO_WORLD_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "data/data_options.h"

namespace oarlock::data {

// One generated row.
struct CriteoRow {
  static constexpr int64_t kMissing = INT64_MIN;
  int label = 0;
  int64_t integers[kCriteoIntegers];
  // The ranks of the values, or kMissing.
  int64_t categories[kCriteoCategories];
  // The log odds of the true model, and the log odds without the interactions.
  double log_odds = 0;
  double additive_log_odds = 0;
};

// Immutable after construction, so thread-safe.
class CriteoWorld {
 public:
  // Everything follows from `seed`.
  explicit CriteoWorld(uint64_t seed);

  // Draws row number `index`. It does not depend on the thread or on earlier
  // calls.
  void Draw(uint64_t index, CriteoRow* row) const;

  // The 8 hex digits that stand for a value. Distinct ranks of a column have
  // distinct values.
  static uint32_t Value(int column, int64_t rank);

 private:
  static constexpr size_t kHeadRanks = 128;

  // How one category column is drawn.
  struct Category {
    size_t num_head = 0;
    int64_t cardinality = 0;
    // Alias table (Walker, 1974) over the head ranks and, as the last entry,
    // the tail: [num_head + 1].
    std::vector<uint32_t> threshold;
    std::vector<uint16_t> alias;
    std::vector<double> probability;  // [num_head + 1], of these entries
    // For the tail: x = (low + u * (high - low))^(1 / power) - offset.
    double tail_low = 0;
    double tail_high = 0;
    double tail_power = 0;
    double tail_offset = 0;
  };
  // An effect of one column. For a category, of_entry has one number for each
  // entry [0, num_head] of Category. For an integer, `mean` and `scale` apply
  // to log(1 + x). Both have `missing` for a missing value.
  struct Effect {
    int column = 0;  // integers first, as in a line
    std::vector<float> of_entry;
    float missing = 0;
    float mean = 0;
    float scale = 0;
  };
  struct Interaction {
    Effect left;
    Effect right;
    double weight = 0;
  };
  // The features of a row from which effects are computed.
  struct Draft {
    // For each category, the entry of its Category, or -1 when missing.
    int32_t entries[kCriteoCategories];
    // log(1 + x) of each integer, or -1 when missing.
    float logs[kCriteoIntegers];
  };

  static Category MakeCategory(int column);
  Effect MakeEffect(int column, uint64_t seed) const;
  Effect MakeCategoryEffect(int column, uint64_t seed) const;
  Effect MakeIntegerEffect(int column, uint64_t seed) const;
  void Calibrate();
  void DrawFeatures(uint64_t row_seed, CriteoRow* row, Draft* draft) const;
  void Score(const Draft& draft, CriteoRow* row) const;
  static float Value(const Effect& effect, const Draft& draft);

  const uint64_t seed_;
  std::vector<Category> categories_;
  std::vector<Effect> main_;  // scaled
  std::vector<Interaction> interactions_;
  double intercept_ = 0;
};

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_SYNTHETIC_CRITEO_WORLD_H_
