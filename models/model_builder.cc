#include "models/model_builder.h"

#include <map>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "models/network_model.h"
#include "nn/interaction_layers.h"
#include "nn/layers.h"
#include "nn/norm_layers.h"

namespace oarlock::models {

ModelBuilder::ModelBuilder(const ModelOptions& options, const RowForm& form)
    : options_(options), form_(form) {
  std::map<size_t, std::vector<int>> slots_of_size;
  for (size_t slot = 0; slot < options.num_slots; ++slot) {
    const auto own = options.slot_sizes.find(static_cast<int>(slot));
    slots_of_size[own == options.slot_sizes.end() ? options.embedding_size
                                                  : own->second]
        .push_back(static_cast<int>(slot));
  }
  // The group of embedding_size comes first. Its table has no suffix, as if it
  // were the only table.
  const auto usual = slots_of_size.find(options.embedding_size);
  if (usual != slots_of_size.end()) {
    groups_.push_back({"", usual->first, std::move(usual->second)});
    slots_of_size.erase(usual);
  }
  for (auto& [size, slots] : slots_of_size) {
    groups_.push_back({absl::StrCat("_", size), size, std::move(slots)});
  }
}

size_t ModelBuilder::RowDim(const Group& group) const {
  return (form_.weight ? 1 : 0) + form_.vectors * group.size;
}

nn::NodeId ModelBuilder::Lookup(const std::string& name, size_t group,
                                size_t column_begin, size_t width) {
  const Group& of = groups_[group];
  return net_.Add(absl::StrCat(name, of.suffix),
                  nn::NewEmbedding({.sparse_input = static_cast<int>(group),
                                    .num_slots = of.slots.size(),
                                    .row_dim = RowDim(of),
                                    .column_begin = column_begin,
                                    .width = width,
                                    .mean = options_.mean_pooling}),
                  {});
}

std::vector<nn::NodeId> ModelBuilder::WeightSums() {
  std::vector<nn::NodeId> weights, sums;
  for (size_t g = 0; g < groups_.size(); ++g) {
    weights.push_back(Lookup("embedding_weight", g, 0, 1));
  }
  // Vectors come before the layers that compute on rows.
  if (form_.vectors > 0) Vectors();
  for (size_t g = 0; g < groups_.size(); ++g) {
    sums.push_back(net_.Add(absl::StrCat("first_order", groups_[g].suffix),
                            nn::NewSumColumns(), {weights[g]}));
  }
  return sums;
}

const std::vector<nn::NodeId>& ModelBuilder::Vectors() {
  if (!vectors_.empty()) return vectors_;
  const char* const name = form_.weight ? "embedding_vector" : "embedding";
  for (size_t g = 0; g < groups_.size(); ++g) {
    vectors_.push_back(
        Lookup(name, g, form_.weight ? 1 : 0, form_.vectors * groups_[g].size));
  }
  return vectors_;
}

std::optional<nn::NodeId> ModelBuilder::PairsInSlots() {
  if (!options_.several_keys_per_slot) return std::nullopt;
  looks_at_pairs_ = true;
  const Group& all = groups_[0];
  return net_.Add(
      "pairs_in_slots",
      nn::NewPairsInSlots({.num_slots = all.slots.size(),
                           .row_dim = RowDim(all),
                           .column_begin = form_.weight ? size_t{1} : 0,
                           .width = all.size,
                           .mean = options_.mean_pooling}),
      {});
}

std::optional<nn::NodeId> ModelBuilder::Dense() {
  if (dense_.has_value() || options_.num_dense == 0) return dense_;
  dense_ = net_.Add("dense", nn::NewDenseInput({options_.num_dense}), {});
  if (options_.dense_norm == DenseNorm::kBatch) {
    dense_ = net_.Add("dense_norm", nn::NewBatchNorm({}), {*dense_});
  } else if (options_.dense_norm == DenseNorm::kData) {
    dense_ = net_.Add("dense_norm", nn::NewDataNorm(), {*dense_});
  }
  return dense_;
}

std::optional<nn::NodeId> ModelBuilder::DenseLinear() {
  const std::optional<nn::NodeId> dense = Dense();
  if (!dense.has_value()) return std::nullopt;
  nn::LinearOptions linear;
  linear.num_outputs = 1;
  linear.bias = false;
  linear.weight_start = nn::WeightStart::kZero;
  return net_.Add("linear", nn::NewLinear(linear), {*dense});
}

nn::NodeId ModelBuilder::Features() {
  if (features_.has_value()) return *features_;
  std::vector<nn::NodeId> parts = Vectors();
  // Dense features are the last part: there, an input without gradient costs
  // nothing.
  if (const std::optional<nn::NodeId> dense = Dense()) parts.push_back(*dense);
  features_ = parts.size() == 1 ? parts[0]
                                : net_.Add("features", nn::NewConcat(), parts);
  return *features_;
}

nn::NodeId ModelBuilder::Fields() {
  if (fields_.has_value()) return *fields_;
  const nn::NodeId vectors = Vectors()[0];
  const std::optional<nn::NodeId> dense = Dense();
  if (!dense.has_value()) return *(fields_ = vectors);
  const size_t width = options_.embedding_size;
  const nn::NodeId scaled =
      net_.Add("dense_vectors",
               nn::NewScaledVectors({width, options_.init_range}), {*dense});
  const nn::NodeId all =
      net_.Add("all_vectors", nn::NewConcat(), {vectors, scaled});
  fields_ = net_.Add(
      "fields",
      nn::NewReshape({options_.num_slots + options_.num_dense, width}), {all});
  return *fields_;
}

nn::NodeId ModelBuilder::Hidden(nn::NodeId input,
                                const std::vector<size_t>& sizes) {
  const std::vector<size_t> widths = options_.hidden_sizes.value_or(sizes);
  for (size_t i = 0; i < widths.size(); ++i) {
    const std::string name = absl::StrCat("fc", i + 1);
    nn::LinearOptions linear;
    linear.num_outputs = widths[i];
    if (options_.hidden_batch_norm) {
      linear.bias = false;
      nn::BatchNormOptions norm;
      norm.activation = nn::Activation::kRelu;
      input = net_.Add(name, nn::NewLinear(linear), {input});
      input = net_.Add(name + "_norm", nn::NewBatchNorm(norm), {input});
    } else {
      linear.activation = nn::Activation::kRelu;
      input = net_.Add(name, nn::NewLinear(linear), {input});
    }
    if (options_.dropout > 0) {
      input = net_.Add(name + "_dropout", nn::NewDropout({options_.dropout}),
                       {input});
    }
  }
  return input;
}

nn::NodeId ModelBuilder::One(const std::string& name, nn::NodeId input,
                             bool bias) {
  nn::LinearOptions linear;
  linear.num_outputs = 1;
  linear.bias = bias;
  return net_.Add(name, nn::NewLinear(linear), {input});
}

absl::StatusOr<std::unique_ptr<Model>> ModelBuilder::BuildSigmoid(
    const std::string& name, const std::vector<nn::NodeId>& terms) {
  const nn::NodeId logit =
      terms.size() == 1 ? terms[0] : net_.Add("sum", nn::NewAdd(), terms);
  return Build(name, net_.Add("loss", nn::NewSigmoidCrossEntropy(), {logit}));
}

absl::StatusOr<std::unique_ptr<Model>> ModelBuilder::Build(
    const std::string& name, nn::NodeId prediction) {
  if (!form_.many_sizes && !options_.slot_sizes.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "model \"", name,
        "\" looks at slots together and got slot_sizes; "
        "legal are slots of their own sizes with ctr_dnn, wide_deep, dcn and "
        "dcn_v2: choose one of them, or one size"));
  }
  std::vector<SparseInputSpec> inputs;
  for (const Group& group : groups_) {
    SparseInputSpec input;
    input.table = absl::StrCat("embedding", group.suffix);
    input.row_dim = RowDim(group);
    if (!form_.starts_at_zero) {
      input.init = {nn::ParameterInit::Kind::kUniform, options_.init_range};
    }
    input.slots = group.slots;
    inputs.push_back(std::move(input));
  }
  return BuildModel(name, options_, std::move(inputs), net_, prediction,
                    looks_at_pairs_);
}

}  // namespace oarlock::models
