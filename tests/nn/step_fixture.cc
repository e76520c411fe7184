#include "tests/nn/step_fixture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/random.h"

namespace oarlock::nn {

RandomStep::RandomStep(const StepShape& step_shape, uint64_t seed)
    : shape(step_shape) {
  RandomSequence random(seed);
  const auto fill = [&](std::vector<float>& v, size_t size) {
    v.resize(size);
    for (float& x : v) x = 2 * static_cast<float>(random.Uniform()) - 1;
  };
  fill(dense, shape.num_examples * shape.num_dense);
  fill(parameters, shape.num_parameters);
  fill(statistics, shape.num_statistics);
  for (float& statistic : statistics) statistic = 1 + statistic / 2;
  images.resize(shape.num_examples * shape.num_image_bytes);
  for (uint8_t& byte : images) byte = static_cast<uint8_t>(random.Below(256));
  labels.resize(shape.num_examples);
  for (float& label : labels) {
    label = static_cast<float>(random.Below(shape.num_classes));
  }
  const size_t num_inputs = shape.row_dims.size();
  rows.resize(num_inputs);
  row_of_key.resize(num_inputs);
  offsets.resize(num_inputs);
  row_gradients.resize(num_inputs);
  input.sparse.resize(num_inputs);
  for (size_t i = 0; i < num_inputs; ++i) {
    fill(rows[i], shape.num_rows * shape.row_dims[i]);
    if (shape.several_keys) offsets[i].push_back(0);
    for (size_t s = 0; s < shape.num_examples * shape.num_slots; ++s) {
      const size_t num_keys = shape.several_keys ? random.Below(4) : 1;
      for (size_t k = 0; k < num_keys; ++k) {
        row_of_key[i].push_back(
            static_cast<uint32_t>(random.Below(shape.num_rows)));
      }
      if (shape.several_keys) {
        offsets[i].push_back(static_cast<uint32_t>(row_of_key[i].size()));
      }
    }
    row_gradients[i].resize(rows[i].size());
    output.row_gradients.push_back(row_gradients[i].data());
    input.sparse[i].rows = rows[i].data();
    input.sparse[i].num_rows = shape.num_rows;
    input.sparse[i].row_of_key = row_of_key[i];
    input.sparse[i].offsets = offsets[i];
  }
  parameter_gradients.resize(shape.num_parameters);
  output.parameter_gradients = parameter_gradients.data();
  input.num_examples = shape.num_examples;
  input.labels = labels.data();
  input.dense = dense.data();
  input.images = images.data();
  input.statistics = statistics.data();
  input.training = true;
  input.parameters = parameters.data();
  Poison();
}

void RandomStep::Poison() {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (std::vector<float>& v : row_gradients) {
    std::fill(v.begin(), v.end(), nan);
  }
  std::fill(parameter_gradients.begin(), parameter_gradients.end(), nan);
}

StepInput RandomStep::Part(size_t begin, size_t end) const {
  StepInput part = input;
  part.num_examples = end - begin;
  part.labels += begin;
  part.dense += begin * shape.num_dense;
  part.images += begin * shape.num_image_bytes;
  for (SparseInput& sparse : part.sparse) {
    sparse.row_of_key = sparse.row_of_key.subspan(
        begin * shape.num_slots, (end - begin) * shape.num_slots);
  }
  return part;
}

namespace {

constexpr float kStep = 2e-3f;
constexpr double kKinkTolerance = 4e-3;
// Share of the values at which a kink of a ReLU may lie.
constexpr double kMaxKinks = 0.1;

struct Tally {
  size_t compared = 0;
  size_t kinks = 0;
};

void Compare(const std::string& what, std::vector<float>& values,
             const std::vector<float>& gradients,
             const std::function<double()>& loss, double tolerance,
             Tally& tally) {
  const double here = loss();
  for (size_t i = 0; i < values.size(); ++i) {
    const float was = values[i];
    // The differences of what is representable, not of what was meant.
    values[i] = was + kStep;
    const double up_step = static_cast<double>(values[i]) - was;
    const double up = (loss() - here) / up_step;
    values[i] = was - kStep;
    const double down_step = static_cast<double>(was) - values[i];
    const double down = (here - loss()) / down_step;
    values[i] = was;
    const double scale = 1 + std::abs(up) + std::abs(down);
    ++tally.compared;
    if (std::abs(up - down) > 2 * kKinkTolerance * scale) {
      ++tally.kinks;
      continue;
    }
    EXPECT_NEAR(gradients[i], (up + down) / 2, tolerance * scale)
        << what << " [" << i << "]";
  }
}

}  // namespace

void ExpectGradientsMatchDifferences(RandomStep& step,
                                     const std::function<double()>& loss,
                                     double tolerance) {
  Tally tally;
  Compare("parameter", step.parameters, step.parameter_gradients, loss,
          tolerance, tally);
  for (size_t i = 0; i < step.rows.size(); ++i) {
    Compare("row of sparse input " + std::to_string(i), step.rows[i],
            step.row_gradients[i], loss, tolerance, tally);
  }
  EXPECT_GT(tally.compared, 0u);
  EXPECT_LE(tally.kinks, kMaxKinks * tally.compared);
}

void ExpectNanReachesTheLoss(RandomStep& step,
                             const std::function<double()>& loss,
                             const std::function<void()>& backward) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const auto is_nan = [](float value) { return std::isnan(value); };
  const bool has_rows = !step.shape.row_dims.empty();
  if (has_rows) {
    const size_t dim = step.shape.row_dims[0];
    std::fill_n(step.rows[0].begin() + step.row_of_key[0][0] * dim, dim, kNan);
  } else {
    std::fill_n(step.dense.begin(), step.shape.num_dense, kNan);
  }
  EXPECT_TRUE(std::isnan(loss()));
  for (std::vector<float>& gradients : step.row_gradients) {
    std::fill(gradients.begin(), gradients.end(), 0.0f);
  }
  std::fill(step.parameter_gradients.begin(), step.parameter_gradients.end(),
            0.0f);
  backward();
  EXPECT_TRUE(std::any_of(step.parameter_gradients.begin(),
                          step.parameter_gradients.end(), is_nan) ||
              (has_rows && std::any_of(step.row_gradients[0].begin(),
                                       step.row_gradients[0].end(), is_nan)));
}

void ExpectClose(const std::vector<float>& a, const std::vector<float>& b,
                 float tolerance, const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (size_t i = 0; i < a.size(); ++i) {
    // Written so that NaN fails.
    if (!(std::abs(a[i] - b[i]) <= tolerance * (1 + std::abs(a[i])))) {
      FAIL() << what << " [" << i << "] of " << a.size() << ": " << a[i]
             << " and " << b[i];
    }
  }
}

}  // namespace oarlock::nn
