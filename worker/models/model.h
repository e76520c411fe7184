// What the training loop needs of a model: its shape, and an executor that
// turns a batch, the rows of its keys and the dense parameters into a loss and
// gradients. Where rows and parameters come from is none of the model's
// business.

#ifndef OARLOCK_WORKER_MODELS_MODEL_H_
#define OARLOCK_WORKER_MODELS_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace oarlock {

// How a parameter starts.
struct ParameterInit {
  enum class Kind { kConstant, kUniform, kNormal };
  Kind kind = Kind::kConstant;
  // The constant, the half range, or the standard deviation.
  float value = 0;
};

// A dense parameter inside the model's one flat vector.
struct ParameterSpec {
  std::string name;           // "fc1/weight"
  std::vector<size_t> shape;  // outermost first
  size_t offset = 0;          // first float in the vector
  ParameterInit init;
};

// A sparse table that the model reads, and the slots that look into it.
struct SparseInputSpec {
  std::string table;  // "embedding"
  size_t row_dim = 0;
  ParameterInit init;
  std::vector<int> slots;
};

struct ModelSpec {
  std::string name;
  size_t num_dense = 0;  // dense features of an example
  size_t num_slots = 0;
  std::vector<SparseInputSpec> sparse_inputs;
  std::vector<ParameterSpec> parameters;
  size_t num_parameters = 0;  // floats in the flat vector
};

// The rows that a batch needs of one sparse input.
struct SparseInput {
  // [num_rows, row_dim]: each distinct key's row once.
  const float* rows = nullptr;
  size_t num_rows = 0;
  // For each key of the batch in the batch's order (see worker/data/batch.h)
  // the number of its row.
  absl::Span<const uint32_t> row_of_key;
  // As Batch::offsets; empty: one key per slot. A slot with several keys is
  // the sum of their rows, one with none is zero.
  absl::Span<const uint32_t> offsets;
};

struct StepInput {
  size_t num_examples = 0;
  const float* labels = nullptr;  // [num_examples]
  const float* dense = nullptr;   // [num_examples, num_dense]
  std::vector<SparseInput> sparse;
  const float* parameters = nullptr;  // [num_parameters]
  // Factor on the gradient of the sum of the examples' losses: 1 for a summed
  // loss, 1 / nominal batch size for a mean loss, so that a short last batch
  // weighs what its examples weigh.
  float gradient_scale = 1;
  // Add to parameter_gradients instead of overwriting them, so that several
  // steps travel as one push.
  bool accumulate_parameter_gradients = false;
};

struct StepOutput {
  // Natural-log loss summed over examples, without the scale.
  double loss_sum = 0;
  // Probability of label 1 of each example; valid until the next call.
  absl::Span<const float> predictions;
  // Backward only. Overwritten: one [num_rows, row_dim] array per sparse
  // input, and [num_parameters]. Given by the caller.
  std::vector<float*> row_gradients;
  float* parameter_gradients = nullptr;
};

// Holds the activations of one batch. One thread at a time.
class ModelExecutor {
 public:
  virtual ~ModelExecutor() = default;
  // Fills loss_sum and predictions.
  virtual void Predict(const StepInput& input, StepOutput* output) = 0;
  // Predict, then the gradients.
  virtual void Step(const StepInput& input, StepOutput* output) = 0;
};

struct ModelOptions {
  size_t num_dense = 13;
  size_t num_slots = 26;
  size_t embedding_size = 10;
  float init_range = 0.01f;
};

// Immutable; thread-safe.
class Model {
 public:
  virtual ~Model() = default;
  virtual const ModelSpec& spec() const = 0;
  // Room for batches of up to `max_examples`.
  virtual std::unique_ptr<ModelExecutor> NewExecutor(
      size_t max_examples) const = 0;
};

// "lr", "ctr_dnn", "deepfm". InvalidArgument names the legal ones.
absl::StatusOr<std::unique_ptr<Model>> NewModel(const std::string& name,
                                                const ModelOptions& options);

}  // namespace oarlock

#endif  // OARLOCK_WORKER_MODELS_MODEL_H_
