// Says when a model predicts worse than a constant would, and what is the
// likeliest reason.

#ifndef OARLOCK_WORKER_REPORT_QUALITY_WARNING_H_
#define OARLOCK_WORKER_REPORT_QUALITY_WARNING_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace oarlock::worker {

// Of a phase of training, or an evaluation.
struct Quality {
  // "train/0", "test/0".
  std::string phase_name;
  double logloss = 0;
  // The rate of clicks.
  double label_mean = 0;
  // Of training, whose predictions begin at 1/2: steps of the phase. Of fewer
  // than 100, the constant is 1/2 where that is worse. 0: an evaluation.
  uint64_t training_steps = 0;
};

// The numbers that make predictions extreme.
struct LargestNumbers {
  // Of the dense features as the model sees them: the largest magnitude, and
  // its column, counted from 0.
  float dense_feature = 0;
  size_t dense_column = 0;
  // The largest magnitude of a dense parameter.
  float weight = 0;
  // --dense_transform can change the feature: the format is Criteo's.
  bool may_transform = false;
};

// The natural logloss of predicting `rate` for every example: the entropy of
// the labels. 0 at 0 and 1.
double ConstantLogloss(double rate);

// One line when the logloss is more than 10 % above that of the constant, else
// empty; empty, too, where all labels are the same. It names a dense feature or
// a weight beyond 1,000, else the learning rate.
std::string QualityWarning(const Quality& quality,
                           const LargestNumbers& numbers, double learning_rate);

}  // namespace oarlock::worker

#endif  // OARLOCK_WORKER_REPORT_QUALITY_WARNING_H_
