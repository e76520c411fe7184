// AUC and logloss of scores that are counted in buckets instead of stored.

#ifndef OARLOCK_DATA_SYNTHETIC_SCORE_HISTOGRAM_H_
#define OARLOCK_DATA_SYNTHETIC_SCORE_HISTOGRAM_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace oarlock::data {

// Counts clicks and non-clicks by log odds, in kBuckets buckets over [-16, 16].
// Counts are integers, so merging histograms in any order gives the same
// figures. The width of a bucket, 0.0005, bounds the error of the figures below
// 1e-6 for data of ordinary spread. Thread-compatible.
class ScoreHistogram {
 public:
  ScoreHistogram() : clicks_(kBuckets), others_(kBuckets) {}

  void Add(double log_odds, bool clicked);
  void Merge(const ScoreHistogram& other);

  // log odds' = intercept + slope * log odds.
  struct Line {
    double intercept = 0;
    double slope = 1;
  };
  // The line of maximum likelihood (Platt, 1999), by Newton's method.
  Line Calibrated() const;

  // 0.5 when there are no clicks or only clicks.
  double Auc() const;
  // Mean natural logloss after `line`; 0 when empty.
  double LogLoss(const Line& line) const;
  uint64_t num_clicks() const;
  uint64_t num_scores() const;

 private:
  static constexpr size_t kBuckets = 1 << 16;
  static constexpr double kRange = 16;
  static double Center(size_t bucket);

  std::vector<uint64_t> clicks_;
  std::vector<uint64_t> others_;
};

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_SYNTHETIC_SCORE_HISTOGRAM_H_
