#include "data/synthetic/score_histogram.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace oarlock::data {

double ScoreHistogram::Center(size_t bucket) {
  return (static_cast<double>(bucket) + 0.5) * (2 * kRange / kBuckets) - kRange;
}

void ScoreHistogram::Add(double log_odds, bool clicked) {
  const double x = (log_odds + kRange) * (kBuckets / (2 * kRange));
  const double last = static_cast<double>(kBuckets - 1);
  const size_t bucket = static_cast<size_t>(std::clamp(x, 0.0, last));
  ++(clicked ? clicks_ : others_)[bucket];
}

void ScoreHistogram::Merge(const ScoreHistogram& other) {
  for (size_t i = 0; i < kBuckets; ++i) {
    clicks_[i] += other.clicks_[i];
    others_[i] += other.others_[i];
  }
}

ScoreHistogram::Line ScoreHistogram::Calibrated() const {
  Line line;
  constexpr int kSteps = 30;
  for (int step = 0; step < kSteps; ++step) {
    // Gradient and Hessian of the log likelihood.
    double g0 = 0, g1 = 0, h00 = 0, h01 = 0, h11 = 0;
    for (size_t i = 0; i < kBuckets; ++i) {
      const double n = static_cast<double>(clicks_[i] + others_[i]);
      if (n == 0) continue;
      const double x = Center(i);
      const double p = 1 / (1 + std::exp(-line.intercept - line.slope * x));
      const double g = static_cast<double>(clicks_[i]) - n * p;
      const double h = n * p * (1 - p);
      g0 += g;
      g1 += g * x;
      h00 += h;
      h01 += h * x;
      h11 += h * x * x;
    }
    const double determinant = h00 * h11 - h01 * h01;
    // With only one score or only one label there is no line.
    if (!(determinant > 1e-12 * h00 * h11)) break;
    const double d0 = (h11 * g0 - h01 * g1) / determinant;
    const double d1 = (h00 * g1 - h01 * g0) / determinant;
    line.intercept += d0;
    line.slope += d1;
    if (std::abs(d0) + std::abs(d1) < 1e-10) break;
  }
  return line;
}

double ScoreHistogram::Auc() const {
  double clicks_below = 0;
  double others_below = 0;
  double area = 0;
  for (size_t i = 0; i < kBuckets; ++i) {
    const double clicks = static_cast<double>(clicks_[i]);
    const double others = static_cast<double>(others_[i]);
    area += clicks * (others_below + others / 2);
    clicks_below += clicks;
    others_below += others;
  }
  const double pairs = clicks_below * others_below;
  return pairs == 0 ? 0.5 : area / pairs;
}

double ScoreHistogram::LogLoss(const Line& line) const {
  double loss = 0;
  double count = 0;
  for (size_t i = 0; i < kBuckets; ++i) {
    const double clicks = static_cast<double>(clicks_[i]);
    const double others = static_cast<double>(others_[i]);
    if (clicks + others == 0) continue;
    const double x = line.intercept + line.slope * Center(i);
    // log(1 + exp(x)) without overflow.
    const double softplus =
        std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
    loss += clicks * (softplus - x) + others * softplus;
    count += clicks + others;
  }
  return count == 0 ? 0 : loss / count;
}

uint64_t ScoreHistogram::num_clicks() const {
  return std::accumulate(clicks_.begin(), clicks_.end(), uint64_t{0});
}

uint64_t ScoreHistogram::num_scores() const {
  return std::accumulate(others_.begin(), others_.end(), num_clicks());
}

}  // namespace oarlock::data
