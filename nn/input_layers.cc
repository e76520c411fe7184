// The first layers of networks: dense features, and rows of embeddings.

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/check.h"
#include "nn/layers.h"
#include "nn/shape_mismatch.h"
#include "nn/weighted_bags.h"

namespace oarlock::nn {
namespace {

// A node whose value is an array of the step. It needs no gradient.
class DenseInput final : public Layer {
 public:
  explicit DenseInput(Shape shape) : shape_(std::move(shape)) {}
  const char* kind() const override { return "dense_input"; }
  std::optional<std::vector<LayerOption>> ExportedOptions() const override {
    return std::vector<LayerOption>{};
  }
  absl::StatusOr<Shape> OutputShape(
      absl::Span<const Shape> inputs) const override {
    if (!inputs.empty()) return ShapeMismatch(*this, inputs, "none");
    return shape_;
  }
  const float* External(const StepInput& step) const override {
    return step.dense;
  }
  void Forward(const ForwardArgs& args) const override {}
  void Backward(const BackwardArgs& args) const override {}

 private:
  const Shape shape_;
};

RowBags BagsOf(const EmbeddingOptions& options, const StepInput& step,
               size_t out_stride) {
  const SparseInput& input = step.sparse[options.sparse_input];
  RowBags bags;
  bags.num_examples = step.num_examples;
  bags.num_slots = options.num_slots;
  bags.row_dim = options.row_dim;
  bags.column_begin = options.column_begin;
  bags.width = options.width;
  bags.row_of_key = input.row_of_key.data();
  bags.offsets = input.offsets.empty() ? nullptr : input.offsets.data();
  bags.num_keys = input.row_of_key.size();
  bags.num_rows = input.num_rows;
  bags.mean = options.mean;
  bags.out_stride = out_stride;
  return bags;
}

absl::Status CheckColumns(const EmbeddingOptions& o) {
  if (o.sparse_input >= 0 && o.column_begin + o.width <= o.row_dim) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "embedding of sparse input ", o.sparse_input, " looks up columns ",
      o.column_begin, " to ", o.column_begin + o.width, " of rows of ",
      o.row_dim, " floats; legal are columns of the row"));
}

std::vector<LayerOption> ExportedLookup(const EmbeddingOptions& o) {
  return {{"sparse_input", static_cast<size_t>(o.sparse_input)},
          {"column_begin", o.column_begin},
          {"width", o.width},
          {"pooling", std::string(o.mean ? "mean" : "sum")}};
}

class Embedding final : public Layer {
 public:
  explicit Embedding(const EmbeddingOptions& options) : options_(options) {}
  const char* kind() const override { return "embedding"; }
  std::optional<std::vector<LayerOption>> ExportedOptions() const override {
    return ExportedLookup(options_);
  }
  absl::StatusOr<Shape> OutputShape(
      absl::Span<const Shape> inputs) const override {
    if (!inputs.empty()) return ShapeMismatch(*this, inputs, "none");
    if (absl::Status columns = CheckColumns(options_); !columns.ok()) {
      return columns;
    }
    return Shape{options_.num_slots, options_.width};
  }
  int sparse_input() const override { return options_.sparse_input; }
  size_t row_dim() const override { return options_.row_dim; }
  bool CanStrideOutput() const override { return true; }
  void Forward(const ForwardArgs& args) const override {
    const SparseInput& input = args.step.sparse[options_.sparse_input];
    if (!input.weights.empty()) {
      OARLOCK_CHECK(args.math.uses_host_memory());
      SumWeightedBags(Bags(args.step, args.output_stride), input.weights.data(),
                      input.rows, args.output);
      return;
    }
    args.math.SumBags(Bags(args.step, args.output_stride),
                      args.step.sparse[options_.sparse_input].rows,
                      args.output);
  }
  void Backward(const BackwardArgs& args) const override {
    const SparseInput& input = args.step.sparse[options_.sparse_input];
    if (!input.weights.empty()) {
      SumWeightedBagsBackward(Bags(args.step, args.output_gradient_stride),
                              input.weights.data(), args.output_gradient,
                              args.row_gradients[options_.sparse_input]);
      return;
    }
    args.math.SumBagsBackward(Bags(args.step, args.output_gradient_stride),
                              args.output_gradient,
                              args.row_gradients[options_.sparse_input]);
  }

 private:
  RowBags Bags(const StepInput& step, size_t out_stride) const {
    return BagsOf(options_, step, out_stride);
  }

  const EmbeddingOptions options_;
};

class PairsInSlots final : public Layer {
 public:
  explicit PairsInSlots(const EmbeddingOptions& options) : options_(options) {}
  const char* kind() const override { return "pairs_in_slots"; }
  std::optional<std::vector<LayerOption>> ExportedOptions() const override {
    return ExportedLookup(options_);
  }
  absl::StatusOr<Shape> OutputShape(
      absl::Span<const Shape> inputs) const override {
    if (!inputs.empty()) return ShapeMismatch(*this, inputs, "none");
    if (absl::Status columns = CheckColumns(options_); !columns.ok()) {
      return columns;
    }
    return Shape{1};
  }
  int sparse_input() const override { return options_.sparse_input; }
  size_t row_dim() const override { return options_.row_dim; }
  void Forward(const ForwardArgs& args) const override {
    const SparseInput& input = args.step.sparse[options_.sparse_input];
    if (!HasPairs(args.math, input)) {
      args.math.Fill(args.step.num_examples, 0, args.output);
      return;
    }
    SumPairsInBags(BagsOf(options_, args.step, /*out_stride=*/0),
                   WeightsOf(input), input.rows, args.output);
  }
  void Backward(const BackwardArgs& args) const override {
    const SparseInput& input = args.step.sparse[options_.sparse_input];
    if (!HasPairs(args.math, input)) return;
    SumPairsInBagsBackward(BagsOf(options_, args.step, /*out_stride=*/0),
                           WeightsOf(input), input.rows, args.output_gradient,
                           args.row_gradients[options_.sparse_input]);
  }

 private:
  // Whoever has other memory is given one key a slot at most
  // (models::ModelSpec::one_key_per_slot).
  static bool HasPairs(const MathBackend& math, const SparseInput& input) {
    return math.uses_host_memory() && !input.offsets.empty();
  }
  static const float* WeightsOf(const SparseInput& input) {
    return input.weights.empty() ? nullptr : input.weights.data();
  }

  const EmbeddingOptions options_;
};

}  // namespace

std::unique_ptr<Layer> NewDenseInput(Shape shape) {
  return std::make_unique<DenseInput>(std::move(shape));
}
std::unique_ptr<Layer> NewEmbedding(const EmbeddingOptions& options) {
  return std::make_unique<Embedding>(options);
}
std::unique_ptr<Layer> NewPairsInSlots(const EmbeddingOptions& options) {
  return std::make_unique<PairsInSlots>(options);
}

}  // namespace oarlock::nn
