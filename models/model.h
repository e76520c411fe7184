// What the training loop needs of a model: its shape, and an executor that
// turns a batch, the rows of its keys and the dense parameters into a loss and
// gradients. Where rows and parameters come from is none of the model's
// business.

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

// A sparse table that the model reads, and the slots that look into it; or the
// table of what norms learn, which lies in rows of fixed keys.
struct SparseInputSpec {
  std::string table;  // "embedding"
  size_t row_dim = 0;
  nn::ParameterInit init;
  std::vector<int> slots;
  // Not 0: statistics. Every step reads the rows of keys 0 up to this, which
  // start at 0, and its gradients are what the step takes from them: they are
  // subtracted as they are, by no other rule, and summed over workers.
  size_t num_fixed_keys = 0;

  bool is_statistics() const { return num_fixed_keys > 0; }
};

struct ModelSpec {
  std::string name;
  size_t num_dense = 0;  // dense features of an example
  size_t num_slots = 0;
  std::vector<SparseInputSpec> sparse_inputs;
  std::vector<nn::ParameterSpec> parameters;
  size_t num_parameters = 0;  // floats in the flat vector
};

// Holds the activations of one batch. One thread at a time.
class ModelExecutor {
 public:
  virtual ~ModelExecutor() = default;
  // Fills loss_sum and predictions.
  virtual void Predict(const nn::StepInput& input, nn::StepOutput* output) = 0;
  // The same, and the gradients; in between what a model does in training only:
  // dropout, and norms by the batch. StepInput::training is not read.
  virtual void Step(const nn::StepInput& input, nn::StepOutput* output) = 0;
};

enum class DenseNorm { kNone, kBatch, kData };

struct ModelOptions {
  static constexpr size_t kMaxSlots = 4096;

  size_t num_dense = 13;  // 0 is legal
  size_t num_slots = 26;  // 1 to kMaxSlots
  // Floats of a key's vector, 1 to 4096. DeepFM's rows hold one more, LR's
  // hold one.
  size_t embedding_size = 10;
  // Of slots that have their own; 1 to 4096 each. Only in models that look at
  // no two slots together.
  std::map<int, size_t> slot_sizes = {};
  // A slot with several keys is the mean of their rows, not the sum.
  bool mean_pooling = false;
  // Half range of the rows' uniform initial values; LR's rows start at 0.
  float init_range = 0.01f;
  // Widths of the hidden layers, each at least 1, of the models that have
  // any. Unset: the model's own, see its header.
  std::optional<std::vector<size_t>> hidden_sizes;
  // Of DCN and DCN v2, 1 to 64.
  size_t cross_layers = 3;
  // Feature maps of xDeepFM's layers, each at least 1; not empty.
  std::vector<size_t> cin_sizes = {16, 16};
  // Of AutoInt: layers (1 to 64), heads (1 to 64), floats of a head (1 to
  // 4096).
  size_t attention_layers = 2;
  size_t attention_heads = 2;
  size_t attention_size = 8;
  // Of the hidden layers' outputs, 0 or more and less than 1.
  float dropout = 0;
  // Batch norm in the hidden layers, before the ReLU; no bias then.
  bool hidden_batch_norm = false;
  // Of the dense features, before anything else.
  DenseNorm dense_norm = DenseNorm::kNone;
  // Who computes, a name of nn/backends/backends.h.
  std::string math_backend = "onednn";
};

// Immutable; thread-safe.
class Model {
 public:
  virtual ~Model() = default;
  virtual const ModelSpec& spec() const = 0;
  // Room for batches of up to `max_examples`. The model outlives it.
  virtual std::unique_ptr<ModelExecutor> NewExecutor(
      size_t max_examples) const = 0;
  // What it computes; null: it is no network.
  virtual const nn::Network* network() const { return nullptr; }
};

// "lr" (lr.h), "fm" and "ffm" (factorization_machines.h), "wide_deep"
// (wide_deep.h), "deepfm" (deepfm.h), "dcn" and "dcn_v2" (cross_networks.h),
// "xdeepfm" (xdeepfm.h), "dlrm" (dlrm.h), "ctr_dnn" (ctr_dnn.h), "autoint"
// (autoint.h). InvalidArgument names the legal ones, or the option that is out
// of range.
absl::StatusOr<std::unique_ptr<Model>> NewModel(const std::string& name,
                                                const ModelOptions& options);

// A flag (proto/config/job_config.proto) that some models read and others do
// not.
struct ModelFlag {
  std::string flag;  // "cross_layers"
  // Names of those that do.
  std::vector<std::string> models;
};
const std::vector<ModelFlag>& ModelFlags();

}  // namespace oarlock::models

#endif  // OARLOCK_MODELS_MODEL_H_
