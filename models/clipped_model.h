// Gradient clipping for any model.

#ifndef OARLOCK_MODELS_CLIPPED_MODEL_H_
#define OARLOCK_MODELS_CLIPPED_MODEL_H_

#include <memory>

#include "models/model.h"

namespace oarlock::models {

struct GradientClip {
  // Each number of the gradient is clipped to [-value, value]. 0: no clipping
  // by value.
  float value = 0;
  // A gradient with a larger norm is scaled down to this norm. 0: no clipping
  // by norm.
  float norm = 0;
};

// Returns `model` with the gradients of its steps clipped, by value, then by
// norm. The gradient of a step consists of the gradients of all dense
// parameters and of all rows (each distinct key's row once), with
// gradient_scale. It is clipped before it is added to the gradients of other
// steps. Statistics of norm layers are not part of it. A gradient whose norm is
// not finite is not scaled. Returns `model` itself if neither clipping is on.
std::unique_ptr<Model> WithClipping(std::unique_ptr<Model> model,
                                    const GradientClip& clip);

}  // namespace oarlock::models

#endif  // OARLOCK_MODELS_CLIPPED_MODEL_H_
