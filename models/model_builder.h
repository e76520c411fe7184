// What the networks of this folder have in common: rows, dense features, hidden
// layers and the options about them, so that a model says what is its own.

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

// A row is [a weight, if there is one, and vectors of the slot's size].
struct RowForm {
  bool weight = false;
  size_t vectors = 1;
  // Whether slots may differ in size.
  bool many_sizes = false;
  // Rows start at 0, not uniform in +-init_range.
  bool starts_at_zero = false;
};

// Nodes that several ask for are made once, when first asked for.
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
  // The dense features, normed as dense_norm says; none if there are none.
  std::optional<nn::NodeId> Dense();
  // "linear": dense . weight, from 0, one number; none without dense features.
  std::optional<nn::NodeId> DenseLinear();
  // "features": vectors and dense features, flat.
  nn::NodeId Features();
  // "fields", [slots + dense features, embedding_size]: vectors, and of each
  // dense feature the number times a vector. REQUIRES: one size.
  nn::NodeId Fields();

  // ---- Layers ----

  // Hidden layers "fc1", "fc2", ... with ReLU, normed and dropped as the
  // options say; returns the last. Weights start Normal(1 / sqrt(inputs)),
  // biases at 0. Without options.hidden_sizes they are `sizes`.
  nn::NodeId Hidden(nn::NodeId input, const std::vector<size_t>& sizes);
  // One number of an input, with or without bias.
  nn::NodeId One(const std::string& name, nn::NodeId input, bool bias);

  // ---- The end ----

  // The model whose probability is the sigmoid of the terms' sum.
  absl::StatusOr<std::unique_ptr<Model>> BuildSigmoid(
      const std::string& name, const std::vector<nn::NodeId>& terms);
  absl::StatusOr<std::unique_ptr<Model>> Build(const std::string& name,
                                               nn::NodeId prediction);

 private:
  // The slots of one size, which have a table of their own.
  struct Group {
    std::string suffix;  // of node and table: "", "_4"
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
};

}  // namespace oarlock::models

#endif  // OARLOCK_MODELS_MODEL_BUILDER_H_
