// What the training loop needs of a model: its shape, and an executor that
// turns a batch, the rows of its keys and the dense parameters into a loss and
// gradients. Where rows and parameters come from is none of the model's
// business.

#ifndef OARLOCK_WORKER_MODELS_MODEL_H_
#define OARLOCK_WORKER_MODELS_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/nn/parameter.h"
#include "worker/nn/step.h"

namespace oarlock {

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
  size_t num_dense = 13;  // 0 is legal
  size_t num_slots = 26;  // 1 to 4096
  // Floats of a key's vector, 1 to 4096. DeepFM's rows hold one more, LR's
  // hold one.
  size_t embedding_size = 10;
  // Half range of the rows' uniform initial values; LR's rows start at 0.
  float init_range = 0.01f;
  // Widths of the hidden layers, each at least 1, of the models that have
  // any. Unset: the model's own, see its header.
  std::optional<std::vector<size_t>> hidden_sizes;
  // Who computes: "onednn", "onednn_bfloat16" or "reference" (slow); see
  // worker/nn/onednn_backend.h.
  std::string math_backend = "onednn";
};

class Network;

// Immutable; thread-safe.
class Model {
 public:
  virtual ~Model() = default;
  virtual const ModelSpec& spec() const = 0;
  // Room for batches of up to `max_examples`. The model outlives it.
  virtual std::unique_ptr<ModelExecutor> NewExecutor(
      size_t max_examples) const = 0;
  // What it computes; null: it is no network.
  virtual const Network* network() const { return nullptr; }
};

// "lr", "ctr_dnn", "deepfm" (see lr.h, ctr_dnn.h, deepfm.h). InvalidArgument
// names the legal ones, or the option that is out of range.
absl::StatusOr<std::unique_ptr<Model>> NewModel(const std::string& name,
                                                const ModelOptions& options);

}  // namespace oarlock

#endif  // OARLOCK_WORKER_MODELS_MODEL_H_
