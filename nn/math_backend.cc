#include "nn/math_backend.h"

namespace oarlock::nn {

void MathBackend::Linear(const LinearArgs& args, float* y) {
  MatMul(args.rows, args.outputs, args.inputs, {args.x, args.inputs},
         {args.weight, args.outputs}, Write::kOverwrite, y, args.outputs);
  if (args.bias != nullptr) {
    AddBias(args.rows, args.outputs, args.bias, args.activation, y);
  }
}

void MathBackend::LinearBackward(const LinearArgs& args, const float* y,
                                 const LinearGradients& gradients) {
  const LinearGradients& g = gradients;
  if (g.dbias != nullptr) {
    AddBiasBackward(args.rows, args.outputs, y, args.activation, g.dy,
                    g.parameter_write, g.dbias);
  }
  MatMul(args.inputs, args.outputs, args.rows, {args.x, args.inputs, true},
         {g.dy, args.outputs}, g.parameter_write, g.dweight, args.outputs);
  if (g.dx != nullptr) {
    MatMul(args.rows, g.dx_width, args.outputs, {g.dy, args.outputs},
           {args.weight, args.outputs, true}, g.dx_write, g.dx, g.dx_width);
  }
}

}  // namespace oarlock::nn
