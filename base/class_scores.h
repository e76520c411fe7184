// How well classes were told apart, from parts that add up.

#ifndef OARLOCK_BASE_CLASS_SCORES_H_
#define OARLOCK_BASE_CLASS_SCORES_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace oarlock {

// Not thread-safe: one per thread, then Merge. Over ranks: the sums of all
// ranks' ToSums make the scores of the whole.
class ClassScores {
 public:
  // Numbers that ToSums gives.
  static constexpr size_t kNumSums = 4;

  // `num_examples` examples. scores [num_examples, num_classes]: logits or
  // probabilities; labels [num_examples]: numbers of the right classes.
  // `loss_sum` is the sum of their losses.
  //
  // An example is right in the first k if fewer than k classes have a higher
  // score than its own, or an equal one and a lower number; with a NaN among
  // its scores it is never right.
  void Add(const float* scores, const float* labels, size_t num_examples,
           size_t num_classes, double loss_sum);
  void Merge(const ClassScores& other);

  // Examples, those right in the first 1, in the first 5, and the sum of
  // losses: to be added up over ranks, and given to FromSums.
  std::array<double, kNumSums> ToSums() const;
  static ClassScores FromSums(const std::array<double, kNumSums>& sums);

  uint64_t num_examples() const { return num_examples_; }
  // Share of examples that are right in the first 1, and in the first 5; NaN
  // while there is no example, as is the loss.
  double accuracy() const { return Mean(static_cast<double>(num_top1_)); }
  double top5_accuracy() const { return Mean(static_cast<double>(num_top5_)); }
  double mean_loss() const { return Mean(loss_sum_); }

 private:
  double Mean(double sum) const;

  uint64_t num_examples_ = 0;
  uint64_t num_top1_ = 0;
  uint64_t num_top5_ = 0;
  double loss_sum_ = 0;
};

}  // namespace oarlock

#endif  // OARLOCK_BASE_CLASS_SCORES_H_
