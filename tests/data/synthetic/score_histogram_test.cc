#include "data/synthetic/score_histogram.h"

#include <cmath>
#include <iostream>
#include <utility>
#include <vector>

#include "base/random.h"
#include "gtest/gtest.h"

namespace oarlock::data {
namespace {

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

TEST(ScoreHistogramTest, AgreesWithPairCountingAndExactLogLoss) {
  std::cout << "seed 23\n";
  RandomSequence random(23);
  ScoreHistogram first;
  ScoreHistogram second;
  std::vector<std::pair<double, bool>> scores;
  double loss = 0;
  for (int i = 0; i < 2000; ++i) {
    // Far enough apart for a bucket each, with ties.
    const double x = (static_cast<double>(random.Below(400)) - 200) / 64;
    const bool clicked = random.Uniform() < Sigmoid(x);
    scores.emplace_back(x, clicked);
    (i % 2 == 0 ? first : second).Add(x, clicked);
    loss += clicked ? std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
  }
  double wins = 0;
  double pairs = 0;
  for (const auto& [a, a_clicked] : scores) {
    if (!a_clicked) continue;
    for (const auto& [b, b_clicked] : scores) {
      if (b_clicked) continue;
      wins += a > b ? 1 : a == b ? 0.5 : 0;
      ++pairs;
    }
  }
  first.Merge(second);
  EXPECT_EQ(first.num_scores(), 2000u);
  EXPECT_NEAR(first.Auc(), wins / pairs, 1e-12);
  EXPECT_NEAR(first.LogLoss({}), loss / 2000, 1e-3);
}

TEST(ScoreHistogramTest, CalibrationFindsThePlantedLine) {
  RandomSequence random(29);
  ScoreHistogram histogram;
  for (int i = 0; i < 400'000; ++i) {
    const double x = 4 * random.Uniform() - 2;
    histogram.Add(x, random.Uniform() < Sigmoid(-1 + 0.5 * x));
  }
  const ScoreHistogram::Line line = histogram.Calibrated();
  EXPECT_NEAR(line.intercept, -1, 0.02);
  EXPECT_NEAR(line.slope, 0.5, 0.02);
  EXPECT_LT(histogram.LogLoss(line), histogram.LogLoss({}));
}

TEST(ScoreHistogramTest, DegenerateCountsHaveDefinedFigures) {
  ScoreHistogram histogram;
  EXPECT_EQ(histogram.Auc(), 0.5);
  EXPECT_EQ(histogram.LogLoss({}), 0);
  histogram.Add(100, true);
  EXPECT_EQ(histogram.Auc(), 0.5);
  EXPECT_TRUE(std::isfinite(histogram.LogLoss(histogram.Calibrated())));
}

}  // namespace
}  // namespace oarlock::data
