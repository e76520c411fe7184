// The common parts of the networks in this folder: rows, dense features, hidden
// layers and their options. So the code of a model only has the parts that
// differ.

#ifndef OARLOCK_MODELS_MODEL_BUILDER_H_
#define OARLOCK_MODELS_MODEL_BUILDER_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "models/model.h"
#include "nn/network.h"

namespace oarlock::models {

// The layout of a row: [weight, if `weight`; `vectors` vectors of the slot's
// size].
struct RowForm {
  bool weight = false;
  size_t vectors = 1;
  // Whether slots may differ in size.
  bool many_sizes = false;
  // Rows start at 0 instead of uniform in +-init_range.
  bool starts_at_zero = false;
};

// Shared nodes are created once, by the first call that needs them.
class ModelBuilder {
 public:
  // `options` outlives it.
  ModelBuilder(const ModelOptions& options, const RowForm& form);

  const ModelOptions& options() const { return options_; }
  nn::NetworkBuilder& net() { return net_; }

  // ---- Inputs ----

  // The sums of the keys' weights: one number for each size of slots.
  std::vector<nn::NodeId> WeightSums();
  // [slots, vectors * size], for each size.
  const std::vector<nn::NodeId>& Vectors();
  // "pairs_in_slots": the inner products of the vectors of pairs of keys in one
  // slot, one number; nullopt where slots have one key. REQUIRES: all slots
  // have one size.
  std::optional<nn::NodeId> PairsInSlots();
  // The dense features, normed as dense_norm says; nullopt without dense
  // features.
  std::optional<nn::NodeId> Dense();
  // "linear": dense . weight, one number; the weights start at 0. nullopt
  // without dense features.
  std::optional<nn::NodeId> DenseLinear();
  // "features": vectors and dense features, flat.
  nn::NodeId Features();
  // "fields", [slots + dense features, embedding_size]: vectors, and for each
  // dense feature the number times a trained vector. REQUIRES: all slots have
  // one size.
  nn::NodeId Fields();

  // ---- Layers ----

  // Hidden layers "fc1", "fc2", ... with ReLU, with the norms and the dropout
  // of the options; returns the last. Weights start Normal(1 / sqrt(inputs)),
  // biases at 0. Their widths are `sizes` unless options.hidden_sizes is set.
  nn::NodeId Hidden(nn::NodeId input, const std::vector<size_t>& sizes);
  // A linear layer from `input` to one number, with or without bias.
  nn::NodeId One(const std::string& name, nn::NodeId input, bool bias);

  // ---- The end ----

  // The model whose probability is the sigmoid of the sum of the terms.
  absl::StatusOr<std::unique_ptr<Model>> BuildSigmoid(
      const std::string& name, const std::vector<nn::NodeId>& terms);
  absl::StatusOr<std::unique_ptr<Model>> Build(const std::string& name,
                                               nn::NodeId prediction);

 private:
  // The slots of one size. Each group has its own table.
  struct Group {
    std::string suffix;  // of the names of node and table: "", "_4"
    size_t size = 0;
    std::vector<int> slots;
  };
  size_t RowDim(const Group& group) const;
  nn::NodeId Lookup(const std::string& name, size_t group, size_t column_begin,
                    size_t width);

  const ModelOptions& options_;
  const RowForm form_;
  nn::NetworkBuilder net_;
  std::vector<Group> groups_;
  std::vector<nn::NodeId> vectors_;
  std::optional<nn::NodeId> dense_;
  std::optional<nn::NodeId> features_;
  std::optional<nn::NodeId> fields_;
  bool looks_at_pairs_ = false;
};

}  // namespace oarlock::models

#endif  // OARLOCK_MODELS_MODEL_BUILDER_H_
