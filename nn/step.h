// Input and output of a step of training.

#ifndef OARLOCK_NN_STEP_H_
#define OARLOCK_NN_STEP_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace oarlock::nn {

// The rows that a batch needs of one sparse input.
struct SparseInput {
  // [num_rows, row_dim]: the row of each distinct key once. With cached rows
  // only the missed rows, [num_missed, row_dim].
  const float* rows = nullptr;
  size_t num_rows = 0;
  // For each key of the input's slots, in the batch's order (see
  // data/batch.h), the number of its row: below num_rows.
  absl::Span<const uint32_t> row_of_key;
  // As Batch::offsets, for the input's slots; empty: one key per slot. The
  // value of a slot with several keys is the sum or mean of their rows, of a
  // slot without keys zero.
  absl::Span<const uint32_t> offsets;
  // As Batch::weights; empty: all weights are 1. In host memory.
  absl::Span<const float> weights;

  // For an executor that caches rows from batch to batch, in `cache_rows`
  // entries: as CachedRows in math_backend.h, [num_rows] each. cache_rows 0: no
  // row is cached.
  size_t cache_rows = 0;
  size_t num_missed = 0;
  absl::Span<const uint32_t> miss_of_row;
  absl::Span<const uint32_t> entry_of_row;
};

struct StepInput {
  size_t num_examples = 0;
  // Whether batch norm uses the batch's moments and updates its statistics, and
  // dropout drops. Must be true before Backward for networks with such layers.
  bool training = false;
  const float* labels = nullptr;  // [num_examples]
  const float* dense = nullptr;   // [num_examples, num_dense]
  // [num_examples, num_image_bytes]: images, height by width by channels.
  const uint8_t* images = nullptr;
  std::vector<SparseInput> sparse;
  const float* parameters = nullptr;  // [num_parameters]
  // [num_statistics]: the statistics of norm layers. Forward reads them, and
  // updates them when `training`.
  float* statistics = nullptr;
  // Determines what dropout drops: the same floats for the same number.
  uint64_t random_seed = 0;
  // Factor on the gradient of the sum of the examples' losses: 1 for a summed
  // loss, 1 / nominal batch size for a mean loss. So every example of a short
  // last batch has the usual weight.
  float gradient_scale = 1;
  // Add to parameter_gradients instead of overwriting them, so that several
  // steps are one push.
  bool accumulate_parameter_gradients = false;
  // `parameters`, `statistics` and StepOutput::parameter_gradients are in the
  // backend's memory and stay there. All other arrays are in host memory, as
  // always.
  bool parameters_in_backend = false;
};

struct StepOutput {
  // Natural-log loss summed over examples, without gradient_scale.
  double loss_sum = 0;
  // Probability of label 1 of each example; with more than two classes the
  // probabilities of all classes, [num_examples, classes]. Valid until the next
  // call.
  absl::Span<const float> predictions;
  // For Backward only; the caller sets these pointers. One [num_rows, row_dim]
  // array per sparse input, which is overwritten; and [num_parameters], which
  // is overwritten or added to.
  std::vector<float*> row_gradients;
  float* parameter_gradients = nullptr;
};

}  // namespace oarlock::nn

#endif  // OARLOCK_NN_STEP_H_
