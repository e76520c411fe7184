// The parts of a model that the training loop needs: its shape, and an
// executor. An executor computes the loss and the gradients from a batch, the
// rows of its keys and the dense parameters. A model does not depend on where
// rows and parameters come from.

#ifndef OARLOCK_MODELS_MODEL_H_
#define OARLOCK_MODELS_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nn/parameter.h"
#include "nn/step.h"

namespace oarlock::nn {
class Network;
}  // namespace oarlock::nn

namespace oarlock::models {

// A sparse table that the model reads, and the slots whose keys are in it. Or
// the table of the statistics of norm layers, which are stored in rows of fixed
// keys.
struct SparseInputSpec {
  std::string table;  // "embedding"
  size_t row_dim = 0;
  nn::ParameterInit init;
  std::vector<int> slots;
  // Not 0: the table holds statistics. Every step reads the rows of keys 0 to
  // num_fixed_keys - 1, which start at 0. The gradients of a step are the
  // negatives of what it adds to them. The gradients of a round are summed over
  // workers, the rows multiplied by `decay`, and the sum subtracted.
  size_t num_fixed_keys = 0;
  float decay = 1;

  bool is_statistics() const { return num_fixed_keys > 0; }
};

struct ModelSpec {
  std::string name;
  size_t num_dense = 0;  // dense features of an example
  size_t num_slots = 0;
  std::vector<SparseInputSpec> sparse_inputs;
  std::vector<nn::ParameterSpec> parameters;
  size_t num_parameters = 0;  // floats in the flat vector
  // Its backend cannot take several keys in a slot of this model.
  bool one_key_per_slot = false;
};

// Holds the activations of one batch. Only one thread at a time may use it.
class ModelExecutor {
 public:
  virtual ~ModelExecutor() = default;
  // Fills loss_sum and predictions.
  virtual void Predict(const nn::StepInput& input, nn::StepOutput* output) = 0;
  // Like Predict, and also computes the gradients. Runs the model as in
  // training: with dropout, and with norms that use the batch.
  // StepInput::training is ignored.
  virtual void Step(const nn::StepInput& input, nn::StepOutput* output) = 0;
};

enum class DenseNorm { kNone, kBatch, kData };

struct ModelOptions {
  static constexpr size_t kMaxSlots = 4096;

  size_t num_dense = 13;  // 0 is legal
  size_t num_slots = 26;  // 1 to kMaxSlots
  // Floats of a key's vector, 1 to 4096. DeepFM's rows have one float more,
  // LR's rows have one float.
  size_t embedding_size = 10;
  // Embedding sizes of slots whose size differs from embedding_size, by slot; 1
  // to 4096 each. Only for models that do not combine slots.
  std::map<int, size_t> slot_sizes = {};
  // The value of a slot with several keys is the mean of their rows instead of
  // the sum.
  bool mean_pooling = false;
  // Slots may have several keys, so that there are pairs of keys in one slot.
  bool several_keys_per_slot = false;
  // Half range of the rows' uniform initial values; LR's rows start at 0.
  float init_range = 0.01f;
  // Widths of the hidden layers, each at least 1, for models with hidden
  // layers. Unset: the defaults of the model, see its header.
  std::optional<std::vector<size_t>> hidden_sizes;
  // Number of cross layers of DCN and DCN v2, 1 to 64.
  size_t cross_layers = 3;
  // Feature maps of xDeepFM's layers, each at least 1; not empty.
  std::vector<size_t> cin_sizes = {16, 16};
  // For AutoInt: layers (1 to 64), heads (1 to 64), floats of a head (1 to
  // 4096).
  size_t attention_layers = 2;
  size_t attention_heads = 2;
  size_t attention_size = 8;
  // Dropout rate of the hidden layers' outputs, 0 or more and less than 1.
  float dropout = 0;
  // Batch norm in the hidden layers, before the ReLU; the layers have no bias
  // then.
  bool hidden_batch_norm = false;
  // The norm of the dense features, before any other layer.
  DenseNorm dense_norm = DenseNorm::kNone;
  // The math backend, by a name of nn/backends/backends.h.
  std::string math_backend = "onednn";
};

// Immutable; thread-safe.
class Model {
 public:
  virtual ~Model() = default;
  virtual const ModelSpec& spec() const = 0;
  // An executor for batches of up to `max_examples`. The model outlives it.
  virtual std::unique_ptr<ModelExecutor> NewExecutor(
      size_t max_examples) const = 0;
  // The network that the model computes; null: the model is not a network.
  virtual const nn::Network* network() const { return nullptr; }
};

// "lr" (lr.h), "fm" and "ffm" (factorization_machines.h), "wide_deep"
// (wide_deep.h), "deepfm" (deepfm.h), "dcn" and "dcn_v2" (cross_networks.h),
// "xdeepfm" (xdeepfm.h), "dlrm" (dlrm.h), "ctr_dnn" (ctr_dnn.h), "autoint"
// (autoint.h). InvalidArgument names the legal ones, or the option that is out
// of range.
absl::StatusOr<std::unique_ptr<Model>> NewModel(const std::string& name,
                                                const ModelOptions& options);

// A flag (proto/config/job_config.proto) that some models use and others do
// not.
struct ModelFlag {
  std::string flag;  // "cross_layers"
  // Names of the models that use the flag.
  std::vector<std::string> models;
};
const std::vector<ModelFlag>& ModelFlags();

}  // namespace oarlock::models

#endif  // OARLOCK_MODELS_MODEL_H_
