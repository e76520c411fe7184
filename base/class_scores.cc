#include "base/class_scores.h"

#include <cmath>
#include <limits>

#include "base/check.h"

namespace oarlock {
namespace {

// Classes that come before the right one; all of them with a NaN.
size_t RankOf(const float* scores, size_t num_classes, size_t label) {
  const float own = scores[label];
  size_t before = 0;
  for (size_t c = 0; c < num_classes; ++c) {
    if (std::isnan(scores[c])) return num_classes;
    if (scores[c] > own || (scores[c] == own && c < label)) ++before;
  }
  return before;
}

}  // namespace

void ClassScores::Add(const float* scores, const float* labels,
                      size_t num_examples, size_t num_classes,
                      double loss_sum) {
  for (size_t i = 0; i < num_examples; ++i) {
    const size_t label = static_cast<size_t>(labels[i]);
    OARLOCK_CHECK(label < num_classes);
    const float* own = scores + i * num_classes;
    const size_t before = RankOf(own, num_classes, label);
    // With a NaN `before` is num_classes, which may be below 5.
    const bool right_at_all = before < num_classes;
    if (right_at_all && before < 1) ++num_top1_;
    if (right_at_all && before < 5) ++num_top5_;
  }
  num_examples_ += num_examples;
  loss_sum_ += loss_sum;
}

void ClassScores::Merge(const ClassScores& other) {
  num_examples_ += other.num_examples_;
  num_top1_ += other.num_top1_;
  num_top5_ += other.num_top5_;
  loss_sum_ += other.loss_sum_;
}

std::array<double, ClassScores::kNumSums> ClassScores::ToSums() const {
  return {static_cast<double>(num_examples_), static_cast<double>(num_top1_),
          static_cast<double>(num_top5_), loss_sum_};
}

ClassScores ClassScores::FromSums(const std::array<double, kNumSums>& sums) {
  ClassScores scores;
  scores.num_examples_ = static_cast<uint64_t>(sums[0]);
  scores.num_top1_ = static_cast<uint64_t>(sums[1]);
  scores.num_top5_ = static_cast<uint64_t>(sums[2]);
  scores.loss_sum_ = sums[3];
  return scores;
}

double ClassScores::Mean(double sum) const {
  if (num_examples_ == 0) return std::numeric_limits<double>::quiet_NaN();
  return sum / static_cast<double>(num_examples_);
}

}  // namespace oarlock
