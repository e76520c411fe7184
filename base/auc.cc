#include "base/auc.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "absl/strings/str_format.h"

namespace oarlock {

bool AucHistogram::AddBucket(uint32_t bucket, uint64_t positives,
                             uint64_t negatives) {
  if (bucket >= kNumBuckets) return false;
  positives_[bucket] += positives;
  negatives_[bucket] += negatives;
  return true;
}

void AucHistogram::Merge(const AucHistogram& other) {
  for (uint32_t i = 0; i < kNumBuckets; ++i) {
    positives_[i] += other.positives_[i];
    negatives_[i] += other.negatives_[i];
  }
}

void AucHistogram::Clear() {
  std::fill(positives_.begin(), positives_.end(), 0);
  std::fill(negatives_.begin(), negatives_.end(), 0);
}

double AucHistogram::Auc() const {
  // Counted in doubles: pairs of 2^53 and more lose their last bits only.
  double pairs_in_order = 0;
  double negatives_below = 0;
  double positives_total = 0;
  for (uint32_t i = 0; i < kNumBuckets; ++i) {
    const auto positives = static_cast<double>(positives_[i]);
    const auto negatives = static_cast<double>(negatives_[i]);
    pairs_in_order += positives * (negatives_below + 0.5 * negatives);
    negatives_below += negatives;
    positives_total += positives;
  }
  if (positives_total == 0 || negatives_below == 0) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  return pairs_in_order / (positives_total * negatives_below);
}

uint64_t AucHistogram::num_positives() const {
  return std::accumulate(positives_.begin(), positives_.end(), uint64_t{0});
}

uint64_t AucHistogram::num_negatives() const {
  return std::accumulate(negatives_.begin(), negatives_.end(), uint64_t{0});
}

std::string AucText(double auc, int digits, double label_mean,
                    uint64_t num_examples) {
  if (!std::isnan(auc)) return absl::StrFormat("%.*f", digits, auc);
  if (num_examples == 0) return "-";
  if (label_mean != 0 && label_mean != 1) return "nan";
  return absl::StrFormat("cannot be told: all %d labels are %d", num_examples,
                         label_mean == 1 ? 1 : 0);
}

}  // namespace oarlock
