// The oracle for the other backends: the formulas of math_backend.h and
// image_operations.h as plain loops, with sums in double precision. It is slow.

#ifndef OARLOCK_NN_REFERENCE_REFERENCE_BACKEND_H_
#define OARLOCK_NN_REFERENCE_REFERENCE_BACKEND_H_

#include <memory>

#include "nn/math_backend.h"

namespace oarlock::nn {

std::unique_ptr<MathBackend> NewReferenceBackend();

}  // namespace oarlock::nn

#endif  // OARLOCK_NN_REFERENCE_REFERENCE_BACKEND_H_
