// Area under the ROC curve of any number of examples in constant memory, from
// parts that add up.

#ifndef OARLOCK_BASE_AUC_H_
#define OARLOCK_BASE_AUC_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace oarlock {

// Counts positive and negative examples per bucket of predicted probability.
// All positives of a bucket tie with all its negatives, so the result is off
// by at most half the probability that a positive and a negative example share
// a bucket. A bucket is narrow in log odds, so this holds for rare clicks as
// for frequent ones: below 1/2 each factor of two from 2^-32 on has 512
// buckets, above it each factor of two of 1 - p, down to 2^-24, which is all
// that a float can tell from 1. Not thread-safe: one per thread, then Merge.
class AucHistogram {
 public:
  // In the order of p: 0, below 1/2, from 1/2 on, 1.
  static constexpr uint32_t kBelowHalf = 31 * 512;
  static constexpr uint32_t kFromHalf = 23 * 512 + 1;
  static constexpr uint32_t kNumBuckets = 1 + kBelowHalf + kFromHalf + 1;

  AucHistogram() : positives_(kNumBuckets), negatives_(kNumBuckets) {}

  // An example predicted with `probability`. What lies outside [0, 1] counts
  // as the nearer end, NaN as 0.
  void Add(float probability, bool positive) {
    (positive ? positives_ : negatives_)[BucketOf(probability)] += 1;
  }

  // Counts of one bucket, as VisitNonEmpty told them elsewhere. False, and
  // nothing is added, when there is no such bucket.
  bool AddBucket(uint32_t bucket, uint64_t positives, uint64_t negatives);
  void Merge(const AucHistogram& other);
  void Clear();

  // Calls visit(bucket, positives, negatives) in ascending order of buckets.
  template <typename Visitor>
  void VisitNonEmpty(Visitor visit) const {
    for (uint32_t i = 0; i < kNumBuckets; ++i) {
      if (positives_[i] != 0 || negatives_[i] != 0) {
        visit(i, positives_[i], negatives_[i]);
      }
    }
  }

  // The probability that a positive example is ranked above a negative one,
  // ties counted half (Mann and Whitney, 1947). NaN while either is missing.
  double Auc() const;

  uint64_t num_positives() const;
  uint64_t num_negatives() const;

  static uint32_t BucketOf(float probability) {
    if (!(probability > 0.0f)) return 0;
    if (probability >= 1.0f) return kNumBuckets - 1;
    if (probability < 0.5f) return 1 + Steps(probability, 32);
    return kBelowHalf + kFromHalf - Steps(1 - probability, 24);
  }

 private:
  // In how many steps, 512 for each factor of two, `p` in (0, 1/2] lies above
  // 2^-octaves. 0 where it lies below.
  static uint32_t Steps(float p, uint32_t octaves) {
    constexpr uint32_t kExponentOfOne = 127;
    constexpr int kBitsBelowStep = 23 - 9;
    const uint32_t steps = std::bit_cast<uint32_t>(p) >> kBitsBelowStep;
    const uint32_t first = (kExponentOfOne - octaves) << 9;
    return steps < first ? 0 : steps - first;
  }

  std::vector<uint64_t> positives_;  // [kNumBuckets]
  std::vector<uint64_t> negatives_;
};

// "0.7312", or why there is no AUC: "cannot be told: all 4000 labels are 1".
// `digits` behind the point; `label_mean` is that of `num_examples` labels. "-"
// without examples.
std::string AucText(double auc, int digits, double label_mean,
                    uint64_t num_examples);

}  // namespace oarlock

#endif  // OARLOCK_BASE_AUC_H_
