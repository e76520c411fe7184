// Gradient clipping, around any model.

#ifndef OARLOCK_MODELS_CLIPPED_MODEL_H_
#define OARLOCK_MODELS_CLIPPED_MODEL_H_

#include <memory>

#include "models/model.h"

namespace oarlock::models {

struct GradientClip {
  // Each number of the gradient is kept within plus and minus this. 0: not.
  float value = 0;
  // The gradient is scaled down to this length where it is longer. 0: not.
  float norm = 0;
};

// `model` with the gradients of its steps clipped, by value, then by norm. A
// step's gradient are all its dense parameters' and rows' (each distinct key's
// row once), with gradient_scale, before it is added to those of other steps;
// what norms learn is none of it. A gradient that is not finite is left alone.
// Returns `model` itself if nothing is to be clipped.
std::unique_ptr<Model> WithClipping(std::unique_ptr<Model> model,
                                    const GradientClip& clip);

}  // namespace oarlock::models

#endif  // OARLOCK_MODELS_CLIPPED_MODEL_H_
