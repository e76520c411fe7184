// A random batch with rows and parameters, and a gradient check.

#ifndef OARLOCK_TESTS_NN_STEP_FIXTURE_H_
#define OARLOCK_TESTS_NN_STEP_FIXTURE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "nn/parameter.h"
#include "nn/step.h"

namespace oarlock::nn {

struct StepShape {
  size_t num_examples = 4;
  size_t num_dense = 0;
  size_t num_classes = 2;
  size_t num_slots = 0;          // of each sparse input
  std::vector<size_t> row_dims;  // of each sparse input
  size_t num_rows = 7;
  size_t num_parameters = 0;
  size_t num_statistics = 0;
  size_t num_image_bytes = 0;
  // No offsets: one key per slot. Else 0 to 3 keys, some of them twice.
  bool several_keys = false;
};

// A step of training. Owns the arrays that `input` and `output` point to.
// Gradients are poisoned.
class RandomStep {
 public:
  RandomStep(const StepShape& shape, uint64_t seed);
  RandomStep(const RandomStep&) = delete;
  RandomStep& operator=(const RandomStep&) = delete;

  // Makes gradients NaN, so that what is not overwritten is seen.
  void Poison();
  // The part of the batch that is examples [begin, end). One key per slot
  // only.
  StepInput Part(size_t begin, size_t end) const;

  StepShape shape;
  std::vector<float> labels, dense, parameters;
  std::vector<float> statistics;  // from 0.5 to 1.5
  std::vector<uint8_t> images;
  std::vector<std::vector<float>> rows;
  std::vector<std::vector<uint32_t>> row_of_key, offsets;
  std::vector<std::vector<float>> row_gradients;
  std::vector<float> parameter_gradients;
  StepInput input;
  StepOutput output;
};

// Compares the gradients in `step` with central differences of `loss`, which
// evaluates the loss of step.input times its gradient_scale. Where the loss
// has a kink (the differences to both sides disagree) nothing is compared;
// few kinks are allowed. Gradients may be off by `tolerance` times 1 + |the
// differences|.
void ExpectGradientsMatchDifferences(RandomStep& step,
                                     const std::function<double()>& loss,
                                     double tolerance = 4e-3);

// Makes the row of the first key NaN, or without rows the first example's dense
// features, runs the step, and expects NaN as the loss and among the gradients.
void ExpectNanReachesTheLoss(RandomStep& step,
                             const std::function<double()>& loss,
                             const std::function<void()>& backward);

// |a - b| <= tolerance * (1 + |a|), element by element; NaN differs.
void ExpectClose(const std::vector<float>& a, const std::vector<float>& b,
                 float tolerance, const std::string& what);

}  // namespace oarlock::nn

#endif  // OARLOCK_TESTS_NN_STEP_FIXTURE_H_
