// A model whose parameters count: each example adds 1 to the rows of its keys,
// once for each time that it has them, and to every dense parameter. With sgd
// at learning rate -1, a summed loss and no warm-up the tables hold what was
// applied to them, exact up to 2^24.

#ifndef OARLOCK_TESTS_WORKER_COUNTING_MODEL_H_
#define OARLOCK_TESTS_WORKER_COUNTING_MODEL_H_

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "models/model.h"
#include "proto/config/job_config.pb.h"

namespace oarlock::worker {

inline constexpr size_t kCountingRowDim = 2;

// The flags without which nothing is counted.
inline void SetCounting(v1::JobConfig* config) {
  config->set_model("counting");
  config->set_optimizer("sgd");
  config->set_learning_rate(-1);
  config->set_warmup_steps(0);
  config->set_loss("sum");
}

class CountingModel : public models::Model {
 public:
  // `before_step` is called by every step of every executor. May be null.
  CountingModel(size_t num_slots, size_t num_parameters,
                std::function<void()> before_step = nullptr)
      : before_step_(std::move(before_step)) {
    spec_.name = "counting";
    spec_.num_slots = num_slots;
    models::SparseInputSpec input;
    input.table = "counts";
    input.row_dim = kCountingRowDim;
    input.slots.resize(num_slots);
    std::iota(input.slots.begin(), input.slots.end(), 0);
    spec_.sparse_inputs.push_back(std::move(input));
    spec_.num_parameters = num_parameters;
    if (num_parameters > 0) {
      spec_.parameters.push_back({"counts", {num_parameters}, 0, {}});
    }
  }

  const models::ModelSpec& spec() const override { return spec_; }
  std::unique_ptr<models::ModelExecutor> NewExecutor(size_t) const override {
    return std::make_unique<Executor>(this);
  }

 private:
  class Executor : public models::ModelExecutor {
   public:
    explicit Executor(const CountingModel* model) : model_(model) {}
    void Predict(const nn::StepInput& input, nn::StepOutput* output) override {
      predictions_.assign(input.num_examples, .5f);
      output->predictions = predictions_;
    }
    void Step(const nn::StepInput& input, nn::StepOutput* output) override {
      if (model_->before_step_) model_->before_step_();
      Predict(input, output);
      const nn::SparseInput& sparse = input.sparse[0];
      float* const rows = output->row_gradients[0];
      std::fill(rows, rows + sparse.num_rows * kCountingRowDim, 0.0f);
      for (const uint32_t row : sparse.row_of_key) {
        for (size_t d = 0; d < kCountingRowDim; ++d) {
          rows[row * kCountingRowDim + d] += input.gradient_scale;
        }
      }
      const float count =
          input.gradient_scale * static_cast<float>(input.num_examples);
      for (size_t i = 0; i < model_->spec_.num_parameters; ++i) {
        float& to = output->parameter_gradients[i];
        to = input.accumulate_parameter_gradients ? to + count : count;
      }
    }

   private:
    const CountingModel* const model_;
    std::vector<float> predictions_;
  };

  const std::function<void()> before_step_;
  models::ModelSpec spec_;
};

}  // namespace oarlock::worker

#endif  // OARLOCK_TESTS_WORKER_COUNTING_MODEL_H_
