#include "data/synthetic/criteo_world.h"

#include <algorithm>
#include <cmath>

#include "base/mix.h"
#include "base/random.h"

namespace oarlock::data {
namespace {

constexpr double kTargetCtr = 0.256;
// Number of rows drawn to find the intercept and the moments of integers.
constexpr uint64_t kCalibrationRows = 1 << 15;

// Columns that are missing together draw from one random number.
enum MissingGroup { kNever, kA, kB, kC, kD, kE, kF, kG, kH, kI, kJ, kK };

struct CategoryColumn {
  int64_t cardinality;  // of the full Kaggle data
  MissingGroup group;
  double missing;
  double exponent;
  double shift;
  double main_weight;
};

constexpr CategoryColumn kCategoryColumns[kCriteoCategories] = {
    {1460, kNever, 0, 1.95, 0.3195, .20},
    {583, kNever, 0, 2.55, 11.9507, .26},
    {10131227, kA, .0345, 1.01, 1.65, .13},
    {2202608, kA, .0345, 1.15, 3.5901, .13},
    {305, kNever, 0, 2.55, 0.3003, .13},
    {24, kB, .1218, 1.35, -0.1992, .29},
    {12517, kNever, 0, 1.35, 17.3603, .15},
    {633, kNever, 0, 2.20, 0.2608, .15},
    {3, kNever, 0, 0.70, -0.9778, .13},
    {93145, kNever, 0, 1.20, -0.1345, .20},
    {5683, kNever, 0, 1.65, 19.5124, .20},
    {8351593, kA, .0345, 1.05, 2.6704, .13},
    {3194, kNever, 0, 1.60, 18.3466, .15},
    {27, kNever, 0, 0.85, -0.6312, .29},
    {14992, kNever, 0, 1.75, 46.1232, .15},
    {5461306, kA, .0345, 1.10, 4.0762, .13},
    {10, kNever, 0, 0.75, -0.7480, .29},
    {5652, kNever, 0, 2.00, 29.9133, .20},
    {2173, kC, .4418, 1.35, -0.6704, .20},
    {4, kC, .4418, 0.60, 0.7293, .20},
    {7046547, kA, .0345, 1.05, 2.7011, .13},
    {18, kD, .7613, 3.95, 2.4484, .20},
    {15, kNever, 0, 0.80, -0.7403, .29},
    {286181, kA, .0345, 1.30, 4.5221, .13},
    {105, kC, .4418, 3.95, 9.0327, .20},
    {142572, kC, .4418, 1.25, 2.4304, .13},
};

struct IntegerColumn {
  MissingGroup group;
  double missing;
  // Mean and deviation of t, the normal variable behind the integer.
  double mean;
  double deviation;
  // Share of rows where it is -1.
  double negative;
  double main_weight;
};

constexpr IntegerColumn kIntegerColumns[kCriteoIntegers] = {
    {kE, .4509, .60, 1.20, 0, .20},  {kNever, 0, 1.80, 2.30, .10, .13},
    {kF, .2134, 2.15, 1.19, 0, .13}, {kF, .2145, 1.70, .91, 0, .13},
    {kG, .0263, 7.40, 2.40, 0, .20}, {kH, .2227, 3.40, 1.75, 0, .20},
    {kI, .0428, 1.55, 1.50, 0, .26}, {kJ, .0005, 2.00, 1.20, 0, .13},
    {kI, .0428, 3.54, 1.63, 0, .13}, {kE, .4509, .35, .55, 0, .13},
    {kI, .0428, .90, .85, 0, .26},   {kK, .7652, -.20, 1.00, 0, .13},
    {kF, .2145, 1.73, .96, 0, .13},
};

// Columns as in a line: I1 is 0, C1 is 13.
constexpr int Integer(int number) { return number - 1; }
constexpr int Category(int number) { return kCriteoIntegers + number - 1; }

struct InteractionColumns {
  int left;
  int right;
  double weight;
};

// Columns with few values, or with frequent values. A model should find these
// interactions in a million rows.
constexpr InteractionColumns kInteractions[] = {
    {Category(6), Category(14), .45},
    {Category(17), Category(23), .45},
    {Integer(7), Category(23), .42},
    {Integer(11), Category(6), .42},
};

constexpr bool IsInteger(int column) { return column < kCriteoIntegers; }

// The uses of the random numbers of a row.
constexpr uint64_t kLabelDraw = 0;
constexpr uint64_t kGroupDraw = 1;      // + group
constexpr uint64_t kIntegerDraw = 32;   // + integer column
constexpr uint64_t kNegativeDraw = 64;  // + integer column
constexpr uint64_t kEntryDraw = 96;     // + category column
constexpr uint64_t kTailDraw = 128;     // + category column

double Uniform(uint64_t seed, uint64_t index) {
  return static_cast<double>(RandomBits(seed, index) >> 11) * 0x1p-53;
}

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// Integral of (x + offset)^-exponent from a to b.
double PowerIntegral(double a, double b, double offset, double exponent) {
  const double power = 1 - exponent;
  return (std::pow(b + offset, power) - std::pow(a + offset, power)) / power;
}

// Walker's tables; `probability` sums to 1.
void FillAliasTable(const std::vector<double>& probability,
                    std::vector<uint32_t>* threshold,
                    std::vector<uint16_t>* alias) {
  const size_t n = probability.size();
  std::vector<double> scaled(n);
  std::vector<size_t> small;
  std::vector<size_t> large;
  for (size_t i = 0; i < n; ++i) {
    scaled[i] = probability[i] * static_cast<double>(n);
    (scaled[i] < 1 ? small : large).push_back(i);
  }
  threshold->assign(n, UINT32_MAX);
  alias->resize(n);
  for (size_t i = 0; i < n; ++i) (*alias)[i] = static_cast<uint16_t>(i);
  while (!small.empty() && !large.empty()) {
    const size_t i = small.back();
    const size_t j = large.back();
    small.pop_back();
    (*threshold)[i] = static_cast<uint32_t>(scaled[i] * 0x1p32);
    (*alias)[i] = static_cast<uint16_t>(j);
    scaled[j] -= 1 - scaled[i];
    if (scaled[j] < 1) {
      large.pop_back();
      small.push_back(j);
    }
  }
}

// The normal variable behind integer `column`, in standard deviations. It is
// bounded so that the largest integers are similar to the real ones.
double IntegerNormal(uint64_t row_seed, int column) {
  return std::clamp<double>(
      RandomNormal(row_seed, kIntegerDraw + static_cast<uint64_t>(column)),
      -3.5, 3.5);
}

int64_t IntegerOf(int column, double normal) {
  const IntegerColumn& c = kIntegerColumns[column];
  return std::max<int64_t>(
      0, std::llround(std::exp(c.mean + c.deviation * normal) - 1));
}

}  // namespace

CriteoWorld::CriteoWorld(uint64_t seed) : seed_(seed) {
  for (int i = 0; i < kCriteoCategories; ++i) {
    categories_.push_back(MakeCategory(i));
  }
  uint64_t number = 0;
  for (int column = 0; column < kCriteoIntegers + kCriteoCategories; ++column) {
    Effect effect = MakeEffect(column, DeriveSeed(seed, ++number));
    const double weight =
        IsInteger(column)
            ? kIntegerColumns[column].main_weight
            : kCategoryColumns[column - kCriteoIntegers].main_weight;
    for (float& value : effect.of_entry) value *= static_cast<float>(weight);
    effect.missing *= static_cast<float>(weight);
    effect.scale *= static_cast<float>(weight);
    main_.push_back(std::move(effect));
  }
  for (const InteractionColumns& columns : kInteractions) {
    const uint64_t left_seed = DeriveSeed(seed, ++number);
    const uint64_t right_seed = DeriveSeed(seed, ++number);
    interactions_.push_back({.left = MakeEffect(columns.left, left_seed),
                             .right = MakeEffect(columns.right, right_seed),
                             .weight = columns.weight});
  }
  Calibrate();
}

uint32_t CriteoWorld::Value(int column, int64_t rank) {
  // MurmurHash3's finaliser, a bijection of 32 bits.
  uint32_t x = static_cast<uint32_t>(rank) ^
               static_cast<uint32_t>(Mix(static_cast<uint64_t>(column)));
  x = (x ^ (x >> 16)) * 0x85ebca6bu;
  x = (x ^ (x >> 13)) * 0xc2b2ae35u;
  return x ^ (x >> 16);
}

CriteoWorld::Category CriteoWorld::MakeCategory(int column) {
  const CategoryColumn& c = kCategoryColumns[column];
  Category category;
  category.cardinality = c.cardinality;
  category.num_head =
      static_cast<size_t>(std::min<int64_t>(c.cardinality, kHeadRanks));
  const double offset = 1 + c.shift;
  double total = 0;
  for (size_t rank = 0; rank < category.num_head; ++rank) {
    category.probability.push_back(
        std::pow(static_cast<double>(rank) + offset, -c.exponent));
    total += category.probability.back();
  }
  double tail = 0;
  const double tail_begin = static_cast<double>(category.num_head) - 0.5;
  const double tail_end = static_cast<double>(c.cardinality) - 0.5;
  if (tail_begin < tail_end) {
    tail = PowerIntegral(tail_begin, tail_end, offset, c.exponent);
    category.tail_power = 1 - c.exponent;
    category.tail_low = std::pow(tail_begin + offset, category.tail_power);
    category.tail_high = std::pow(tail_end + offset, category.tail_power);
    category.tail_offset = offset;
  }
  category.probability.push_back(tail);
  total += tail;
  for (double& probability : category.probability) probability /= total;
  FillAliasTable(category.probability, &category.threshold, &category.alias);
  return category;
}

CriteoWorld::Effect CriteoWorld::MakeEffect(int column, uint64_t seed) const {
  return IsInteger(column) ? MakeIntegerEffect(column, seed)
                           : MakeCategoryEffect(column, seed);
}

CriteoWorld::Effect CriteoWorld::MakeCategoryEffect(int column,
                                                    uint64_t seed) const {
  const int i = column - kCriteoIntegers;
  const Category& category = categories_[i];
  const double missing = kCategoryColumns[i].missing;
  Effect effect;
  effect.column = column;
  effect.of_entry.resize(category.num_head + 1);
  effect.missing = RandomNormal(seed, category.num_head + 1);
  double mean = missing * effect.missing;
  double square = missing * effect.missing * effect.missing;
  for (size_t entry = 0; entry <= category.num_head; ++entry) {
    // The tail has no effect of its own: a model cannot learn from values that
    // hardly repeat.
    const double value =
        entry < category.num_head ? RandomNormal(seed, entry) : 0;
    const double probability = (1 - missing) * category.probability[entry];
    effect.of_entry[entry] = static_cast<float>(value);
    mean += probability * value;
    square += probability * value * value;
  }
  const double scale = 1 / std::sqrt(square - mean * mean);
  const auto standardise = [&](float& value) {
    value = static_cast<float>((value - mean) * scale);
  };
  for (float& value : effect.of_entry) standardise(value);
  standardise(effect.missing);
  return effect;
}

CriteoWorld::Effect CriteoWorld::MakeIntegerEffect(int column,
                                                   uint64_t seed) const {
  const IntegerColumn& c = kIntegerColumns[column];
  // Mean and deviation of log(1 + x), from a sample.
  double sum = 0;
  double square_sum = 0;
  for (uint64_t i = 0; i < kCalibrationRows; ++i) {
    const double normal = IntegerNormal(DeriveSeed(seed, i), column);
    const bool negative = Uniform(DeriveSeed(seed, i), 0) < c.negative;
    const double x =
        negative ? 0
                 : std::log1p(static_cast<double>(IntegerOf(column, normal)));
    sum += x;
    square_sum += x * x;
  }
  const double mean = sum / kCalibrationRows;
  const double variance = square_sum / kCalibrationRows - mean * mean;
  // A missing value has the effect `missing`. Present values are shifted so
  // that the mean is 0, and all effects are scaled so that the variance is 1.
  const double missing = c.missing == 0 ? 0 : RandomNormal(seed, 0);
  const double sign = RandomBits(seed, 1) >> 63 == 0 ? 1 : -1;
  const double present = 1 - c.missing;
  const double shift = -c.missing * missing / present;
  const double scale = sign / std::sqrt(present * (1 + shift * shift) +
                                        c.missing * missing * missing);
  Effect effect;
  effect.column = column;
  effect.scale = static_cast<float>(scale / std::sqrt(variance));
  effect.mean = static_cast<float>(mean - shift * std::sqrt(variance));
  effect.missing = static_cast<float>(missing * scale);
  return effect;
}

void CriteoWorld::Calibrate() {
  std::vector<double> log_odds;
  const uint64_t seed = DeriveSeed(seed_, 0);
  for (uint64_t i = 0; i < kCalibrationRows; ++i) {
    CriteoRow row;
    Draft draft;
    DrawFeatures(DeriveSeed(seed, i), &row, &draft);
    Score(draft, &row);
    log_odds.push_back(row.log_odds);
  }
  double low = -20;
  double high = 20;
  constexpr int kHalvings = 50;
  for (int i = 0; i < kHalvings; ++i) {
    intercept_ = (low + high) / 2;
    double sum = 0;
    for (const double x : log_odds) sum += Sigmoid(x + intercept_);
    (sum < kTargetCtr * kCalibrationRows ? low : high) = intercept_;
  }
}

void CriteoWorld::Draw(uint64_t index, CriteoRow* row) const {
  // Distinct from the seeds of the model.
  const uint64_t row_seed = DeriveSeed(~seed_, index);
  Draft draft;
  DrawFeatures(row_seed, row, &draft);
  Score(draft, row);
  row->label = Uniform(row_seed, kLabelDraw) < Sigmoid(row->log_odds) ? 1 : 0;
}

void CriteoWorld::DrawFeatures(uint64_t row_seed, CriteoRow* row,
                               Draft* draft) const {
  const auto is_missing = [row_seed](MissingGroup group, double share) {
    return group != kNever && Uniform(row_seed, kGroupDraw + group) < share;
  };
  for (int i = 0; i < kCriteoIntegers; ++i) {
    const IntegerColumn& c = kIntegerColumns[i];
    if (is_missing(c.group, c.missing)) {
      row->integers[i] = CriteoRow::kMissing;
      draft->logs[i] = -1;
      continue;
    }
    if (c.negative > 0 &&
        Uniform(row_seed, kNegativeDraw + static_cast<uint64_t>(i)) <
            c.negative) {
      row->integers[i] = -1;
      draft->logs[i] = 0;
      continue;
    }
    row->integers[i] = IntegerOf(i, IntegerNormal(row_seed, i));
    draft->logs[i] = std::log1p(static_cast<float>(row->integers[i]));
  }
  for (int i = 0; i < kCriteoCategories; ++i) {
    const CategoryColumn& c = kCategoryColumns[i];
    if (is_missing(c.group, c.missing)) {
      row->categories[i] = CriteoRow::kMissing;
      draft->entries[i] = -1;
      continue;
    }
    const Category& category = categories_[i];
    const uint64_t bits =
        RandomBits(row_seed, kEntryDraw + static_cast<uint64_t>(i));
    const uint64_t cell = (bits >> 32) * category.threshold.size() >> 32;
    const size_t entry = static_cast<uint32_t>(bits) <= category.threshold[cell]
                             ? cell
                             : category.alias[cell];
    draft->entries[i] = static_cast<int32_t>(entry);
    if (entry < category.num_head) {
      row->categories[i] = static_cast<int64_t>(entry);
      continue;
    }
    const double u = Uniform(row_seed, kTailDraw + static_cast<uint64_t>(i));
    const double x = std::pow(category.tail_low +
                                  u * (category.tail_high - category.tail_low),
                              1 / category.tail_power) -
                     category.tail_offset;
    row->categories[i] = std::clamp<int64_t>(std::llround(x), category.num_head,
                                             category.cardinality - 1);
  }
}

float CriteoWorld::Value(const Effect& effect, const Draft& draft) {
  if (IsInteger(effect.column)) {
    const float log = draft.logs[effect.column];
    return log < 0 ? effect.missing : (log - effect.mean) * effect.scale;
  }
  const int32_t entry = draft.entries[effect.column - kCriteoIntegers];
  return entry < 0 ? effect.missing : effect.of_entry[entry];
}

void CriteoWorld::Score(const Draft& draft, CriteoRow* row) const {
  double sum = intercept_;
  for (const Effect& effect : main_) sum += Value(effect, draft);
  row->additive_log_odds = sum;
  for (const Interaction& interaction : interactions_) {
    sum += interaction.weight * Value(interaction.left, draft) *
           Value(interaction.right, draft);
  }
  row->log_odds = sum;
}

}  // namespace oarlock::data
