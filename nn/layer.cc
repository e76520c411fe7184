#include "nn/layer.h"

namespace oarlock::nn {

size_t Layer::OutputGradientWidth(absl::Span<const Shape> inputs,
                                  absl::Span<const size_t> input_widths) const {
  bool wanted = sparse_input() >= 0 || !Parameters(inputs).empty();
  for (size_t width : input_widths) wanted |= width > 0;
  if (!wanted) return 0;
  const absl::StatusOr<Shape> shape = OutputShape(inputs);
  return shape.ok() ? shape->size() : 0;
}

}  // namespace oarlock::nn
