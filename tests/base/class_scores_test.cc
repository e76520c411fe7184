#include "base/class_scores.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "base/random.h"

namespace oarlock {
namespace {

constexpr uint64_t kSeed = 5;

// Whether `label` is among the first `k` of a stable sort by score.
bool InFirst(const std::vector<float>& scores, size_t label, size_t k) {
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  const auto end = order.begin() + std::min(k, order.size());
  return std::find(order.begin(), end, label) != end;
}

TEST(ClassScoresTest, AgreesWithSortingWhateverTheSplit) {
  RandomSequence random(kSeed);
  for (const size_t num_classes : {2, 3, 5, 6, 10, 100}) {
    SCOPED_TRACE(testing::Message()
                 << "seed " << kSeed << ", classes " << num_classes);
    ClassScores whole;
    std::array<double, ClassScores::kNumSums> sums = {};
    double top1 = 0, top5 = 0, loss = 0, examples = 0;
    for (int part = 0; part < 20; ++part) {
      const size_t n = random.Below(9);
      std::vector<float> scores, labels;
      for (size_t i = 0; i < n; ++i) {
        std::vector<float> own(num_classes);
        // Few values, so that there are ties.
        for (float& x : own) x = static_cast<float>(random.Below(20));
        const size_t label = random.Below(num_classes);
        top1 += InFirst(own, label, 1);
        top5 += InFirst(own, label, 5);
        scores.insert(scores.end(), own.begin(), own.end());
        labels.push_back(static_cast<float>(label));
      }
      const double part_loss = random.Uniform() * static_cast<double>(n);
      loss += part_loss;
      examples += static_cast<double>(n);
      ClassScores rank;
      rank.Add(scores.data(), labels.data(), n, num_classes, part_loss);
      whole.Merge(rank);
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += rank.ToSums()[i];
    }
    for (const ClassScores& scores : {whole, ClassScores::FromSums(sums)}) {
      EXPECT_EQ(scores.num_examples(), examples);
      EXPECT_DOUBLE_EQ(scores.accuracy(), top1 / examples);
      EXPECT_DOUBLE_EQ(scores.top5_accuracy(), top5 / examples);
      EXPECT_DOUBLE_EQ(scores.mean_loss(), loss / examples);
    }
  }
}

TEST(ClassScoresTest, ANotANumberIsNeverRight) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> scores = {1, nan, 0, nan, 0, 1};
  const std::vector<float> labels = {0, 0};
  ClassScores class_scores;
  class_scores.Add(scores.data(), labels.data(), 2, 3, 0);
  EXPECT_EQ(class_scores.accuracy(), 0);
  EXPECT_EQ(class_scores.top5_accuracy(), 0);
}

TEST(ClassScoresTest, NoExampleHasNoScore) {
  const ClassScores scores;
  EXPECT_TRUE(std::isnan(scores.accuracy()));
  EXPECT_TRUE(std::isnan(scores.top5_accuracy()));
  EXPECT_TRUE(std::isnan(scores.mean_loss()));
}

}  // namespace
}  // namespace oarlock
