// One kind of node of a network: how its output and the gradients by its
// inputs and parameters are computed. See layers.h for the kinds there are.

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

// What a layer wants to learn: name "weight", without offset.
struct LayerParameter {
  std::string name;
  std::vector<size_t> shape;
  ParameterInit init;
};

// What a layer learns in Forward, without a gradient.
struct LayerStatistic {
  std::string name;  // "mean"
  std::vector<size_t> shape;
  float start = 0;
};

// What a layer is beside its kind, the shapes of its inputs and its parameters,
// for programs that read exported models (docs/export_format.md).
struct LayerOption {
  std::string name;  // "activation"
  std::variant<size_t, std::string> value;
};

// Numbers that stand for statistics in an exported model.
struct ExportedMoments {
  std::string name;  // "mean"
  std::vector<float> values;
};

// All pointers are to the backend's memory, those in `step` too. A tensor
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
  // Floats between examples: more than the tensor's size only where
  // CanStrideOutput().
  size_t output_stride = 0;
  double* loss_sum = nullptr;  // of the host; a loss adds to it by Finish
  size_t node = 0;             // its number in the network
};

// Where a gradient goes. Null data: nobody wants it.
struct GradientTarget {
  float* data = nullptr;
  // Floats wanted of each example, and the distance between examples. Less
  // than the tensor's size only where CanNarrowGradient().
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
  // Gradient by the output: null for a loss. The layer may overwrite it.
  // output_gradient_width floats of each example, the first of the tensor.
  float* output_gradient = nullptr;
  size_t output_gradient_width = 0;
  // Floats between examples: more than the width only where CanStrideOutput().
  size_t output_gradient_stride = 0;
  absl::Span<const GradientTarget> input_gradients;
  // Overwritten or added to, as parameter_write says.
  absl::Span<float* const> parameter_gradients;
  Write parameter_write = Write::kOverwrite;
  absl::Span<float* const> row_gradients;  // added to; per sparse input
  size_t node = 0;
};

// Immutable, so that all executors share it; thread-safe.
class Layer {
 public:
  virtual ~Layer() = default;
  // "linear": in names and messages.
  virtual const char* kind() const = 0;

  // The output's shape for inputs of these shapes, or InvalidArgument with
  // what does not fit.
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
  // Floats to remember from Forward to Backward of up to max_examples.
  virtual size_t ScratchFloats(const MathBackend& math,
                               absl::Span<const Shape> inputs,
                               size_t max_examples) const {
    return 0;
  }

  // The part of a step that is this node's value as it is, for nodes that
  // compute nothing; null for all others.
  virtual const float* External(const StepInput& step) const { return nullptr; }
  // Whether it computes a loss: output gradients come out of nothing, and the
  // output is a probability.
  virtual bool is_loss() const { return false; }
  // Whether its output is its inputs one after the other, so that an input may
  // be written there at once, if its own layer can stride its output, and its
  // gradient be read there.
  virtual bool is_concatenation() const { return false; }
  virtual bool CanStrideOutput() const { return false; }
  // Whether its output is its one input under another shape of the same size:
  // then its readers read that, and it is neither computed nor stored.
  virtual bool is_view() const { return false; }
  // Whether Backward needs a Forward with StepInput::training.
  virtual bool learns_in_training_only() const { return false; }
  // What Forward outside training depends on; nothing: readers of exported
  // models do not know the kind.
  virtual std::optional<std::vector<LayerOption>> ExportedOptions() const {
    return std::nullopt;
  }
  // What Forward outside training computes with in place of its statistics,
  // which lie in the host's memory here: parameters of an exported model,
  // behind the layer's own.
  virtual std::vector<ExportedMoments> MomentsOf(
      absl::Span<const Shape> inputs,
      absl::Span<const float* const> statistics) const {
    return {};
  }
  // Bytes of StepInput::images that it reads of an example.
  virtual size_t image_bytes() const { return 0; }
  // The sparse input whose rows it looks up, or -1.
  virtual int sparse_input() const { return -1; }
  // Floats of such a row.
  virtual size_t row_dim() const { return 0; }

  // How many of the output's leading floats need a gradient, given that of
  // each input. (What needs none is not computed.)
  virtual size_t OutputGradientWidth(
      absl::Span<const Shape> inputs,
      absl::Span<const size_t> input_widths) const;
  // Whether Backward can leave out an input gradient's trailing floats.
  virtual bool CanNarrowGradient() const { return false; }

  virtual void Forward(const ForwardArgs& args) const = 0;
  virtual void Backward(const BackwardArgs& args) const = 0;
};

}  // namespace oarlock::nn

#endif  // OARLOCK_NN_LAYER_H_
