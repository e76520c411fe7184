// The error of a layer for inputs of the wrong shapes.

#ifndef OARLOCK_NN_SHAPE_MISMATCH_H_
#define OARLOCK_NN_SHAPE_MISMATCH_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "nn/layer.h"
#include "nn/tensor.h"

namespace oarlock::nn {

// InvalidArgument: the layer got inputs of these shapes and supports `legal`.
inline absl::Status ShapeMismatch(const Layer& layer,
                                  absl::Span<const Shape> shapes,
                                  const char* legal) {
  const std::string printed =
      absl::StrJoin(shapes, " ", [](std::string* out, const Shape& shape) {
        out->append(shape.ToString());
      });
  return absl::InvalidArgumentError(
      absl::StrCat(layer.kind(), " got inputs ", printed, ", takes ", legal));
}

}  // namespace oarlock::nn

#endif  // OARLOCK_NN_SHAPE_MISMATCH_H_
