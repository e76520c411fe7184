// One kind of node of a network: computes its output, and the gradients by its
// inputs and parameters. See layers.h for the kinds.

#ifndef OARLOCK_NN_LAYER_H_
#define OARLOCK_NN_LAYER_H_

#include <cstddef>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nn/math_backend.h"
#include "nn/parameter.h"
#include "nn/step.h"
#include "nn/tensor.h"

namespace oarlock::nn {

// A parameter of a layer, such as "weight". It has no offset.
struct LayerParameter {
  std::string name;
  std::vector<size_t> shape;
  ParameterInit init;
};

// A statistic that a layer updates in Forward, without a gradient.
struct LayerStatistic {
  std::string name;  // "mean"
  std::vector<size_t> shape;
  float start = 0;
  // Of sums: the factor by which Forward multiplies them before it adds to
  // them.
  float decay = 1;
};

// An option of a layer, in addition to its kind, the shapes of its inputs and
// its parameters. For programs that read exported models
// (docs/export_format.md).
struct LayerOption {
  std::string name;  // "activation"
  std::variant<size_t, std::string> value;
};

// Numbers that replace statistics in an exported model.
struct ExportedMoments {
  std::string name;  // "mean"
  std::vector<float> values;
};

// All pointers point to the backend's memory, even those in `step`. A tensor
// holds step.num_examples examples of its shape.
struct ForwardArgs {
  MathBackend& math;
  const StepInput& step;
  absl::Span<const Shape> shapes;         // of the inputs
  absl::Span<const float* const> inputs;  // values of the inputs
  absl::Span<const float* const> parameters;
  absl::Span<float* const> statistics;
  float* scratch = nullptr;  // kept until Backward; see ScratchFloats
  float* output = nullptr;
  // Floats from one example to the next: more than the tensor's size only where
  // CanStrideOutput().
  size_t output_stride = 0;
  double* loss_sum = nullptr;  // on the host; a loss adds to it by Finish
  size_t node = 0;             // the node's number in the network
};

// Where a gradient is written. Null data: it is not needed.
struct GradientTarget {
  float* data = nullptr;
  // Number of floats needed of each example, and the distance from one example
  // to the next. Less than the tensor's size only where CanNarrowGradient().
  size_t width = 0;
  Write write = Write::kOverwrite;
};

struct BackwardArgs {
  MathBackend& math;
  const StepInput& step;
  absl::Span<const Shape> shapes;
  absl::Span<const float* const> inputs;
  absl::Span<const float* const> parameters;
  float* scratch = nullptr;
  const float* output = nullptr;
  // Gradient by the output: null for a loss. The layer may overwrite it. It has
  // the first output_gradient_width floats of each example's tensor.
  float* output_gradient = nullptr;
  size_t output_gradient_width = 0;
  // Floats from one example to the next: more than the width only where
  // CanStrideOutput().
  size_t output_gradient_stride = 0;
  absl::Span<const GradientTarget> input_gradients;
  // Overwritten or added to, as parameter_write says.
  absl::Span<float* const> parameter_gradients;
  Write parameter_write = Write::kOverwrite;
  absl::Span<float* const> row_gradients;  // added to; per sparse input
  size_t node = 0;
};

// Immutable, so all executors can share it; thread-safe.
class Layer {
 public:
  virtual ~Layer() = default;
  // The kind for names and messages, such as "linear".
  virtual const char* kind() const = 0;

  // The shape of the output for inputs of these shapes. InvalidArgument, which
  // says what is wrong, for shapes that the layer does not support.
  virtual absl::StatusOr<Shape> OutputShape(
      absl::Span<const Shape> inputs) const = 0;
  virtual std::vector<LayerParameter> Parameters(
      absl::Span<const Shape> inputs) const {
    return {};
  }
  virtual std::vector<LayerStatistic> Statistics(
      absl::Span<const Shape> inputs) const {
    return {};
  }
  // Number of floats to keep from Forward to Backward, for up to max_examples.
  virtual size_t ScratchFloats(const MathBackend& math,
                               absl::Span<const Shape> inputs,
                               size_t max_examples) const {
    return 0;
  }

  // For nodes that compute nothing: the array of the step that is this node's
  // value. Null for all other nodes.
  virtual const float* External(const StepInput& step) const { return nullptr; }
  // Whether it computes a loss: it needs no gradient by its output, and the
  // output is a probability.
  virtual bool is_loss() const { return false; }
  // Whether its output is its inputs one after the other. Then the layer of an
  // input may write directly into this output, if it can stride its output, and
  // read its gradient there.
  virtual bool is_concatenation() const { return false; }
  virtual bool CanStrideOutput() const { return false; }
  // Whether its output is its only input under another shape of the same size.
  // Then readers of the output read the input, and the output is neither
  // computed nor stored.
  virtual bool is_view() const { return false; }
  // Whether Backward needs a Forward with StepInput::training.
  virtual bool learns_in_training_only() const { return false; }
  // The options on which Forward outside training depends. nullopt: readers of
  // exported models do not support the kind.
  virtual std::optional<std::vector<LayerOption>> ExportedOptions() const {
    return std::nullopt;
  }
  // The numbers that Forward outside training computes from the statistics. In
  // an exported model they are parameters after the layer's own ones.
  // `statistics` is in host memory.
  virtual std::vector<ExportedMoments> MomentsOf(
      absl::Span<const Shape> inputs,
      absl::Span<const float* const> statistics) const {
    return {};
  }
  // Number of bytes of StepInput::images that the layer reads per example.
  virtual size_t image_bytes() const { return 0; }
  // The sparse input whose rows the layer looks up, or -1.
  virtual int sparse_input() const { return -1; }
  // Number of floats of such a row.
  virtual size_t row_dim() const { return 0; }

  // The number of leading floats of the output that need a gradient, given this
  // number for each input. (Gradients that are not needed are not computed.)
  virtual size_t OutputGradientWidth(
      absl::Span<const Shape> inputs,
      absl::Span<const size_t> input_widths) const;
  // Whether Backward can omit the trailing floats of an input gradient.
  virtual bool CanNarrowGradient() const { return false; }

  virtual void Forward(const ForwardArgs& args) const = 0;
  virtual void Backward(const BackwardArgs& args) const = 0;
};

}  // namespace oarlock::nn

#endif  // OARLOCK_NN_LAYER_H_
