// Area under the ROC curve of any number of examples in constant memory, from
// parts that add up.

#ifndef OARLOCK_BASE_AUC_H_
#define OARLOCK_BASE_AUC_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace oarlock {

// Counts positive and negative examples per bucket of predicted probability.
// All positives of a bucket tie with all its negatives, so the result is off
// by at most half the probability that a positive and a negative example share
// a bucket. Not thread-safe: one per thread, then Merge.
class AucHistogram {
 public:
  static constexpr uint32_t kNumBuckets = 16384;

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
    return static_cast<uint32_t>(probability * kNumBuckets);
  }

 private:
  std::vector<uint64_t> positives_;  // [kNumBuckets]
  std::vector<uint64_t> negatives_;
};

}  // namespace oarlock

#endif  // OARLOCK_BASE_AUC_H_
