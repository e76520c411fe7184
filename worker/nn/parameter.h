// The parameters of a network: where they lie in one flat vector and how they
// start.

#ifndef OARLOCK_WORKER_NN_PARAMETER_H_
#define OARLOCK_WORKER_NN_PARAMETER_H_

#include <cstddef>
#include <string>
#include <vector>

namespace oarlock {

// How a parameter starts.
struct ParameterInit {
  enum class Kind { kConstant, kUniform, kNormal };
  Kind kind = Kind::kConstant;
  // The constant, the half range, or the standard deviation.
  float value = 0;
};

// A dense parameter inside the model's one flat vector.
struct ParameterSpec {
  std::string name;           // "fc1/weight"
  std::vector<size_t> shape;  // outermost first
  size_t offset = 0;          // first float in the vector
  ParameterInit init;
};

}  // namespace oarlock

#endif  // OARLOCK_WORKER_NN_PARAMETER_H_
