// The parameters of a network: their offsets in one flat vector and their start
// values. The same for its statistics, which are in a second vector.

#ifndef OARLOCK_NN_PARAMETER_H_
#define OARLOCK_NN_PARAMETER_H_

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

namespace oarlock::nn {

// The start values of a parameter.
struct ParameterInit {
  enum class Kind { kConstant, kUniform, kNormal };
  Kind kind = Kind::kConstant;
  // The constant, the half range, or the standard deviation.
  float value = 0;
};

// The start of a weight whose spread depends on the number of inputs and
// outputs of a unit: fan_in and fan_out.
enum class WeightStart {
  // Normal, deviation 1 / sqrt(fan_in): Fluid's quick start.
  kFanInNormal,
  // Normal, deviation sqrt(2 / fan_in): He et al., Delving deep into
  // rectifiers, 2015. Paddle's default for convolutions.
  kHeNormal,
  // Uniform within sqrt(6 / (fan_in + fan_out)): Glorot and Bengio,
  // Understanding the difficulty of training deep feedforward networks, 2010.
  // Paddle's default for linear layers.
  kXavierUniform,
  // Uniform within 1 / sqrt(fan_in). PyTorch's default for both.
  kFanInUniform,
  kZero,
};

inline ParameterInit InitOf(WeightStart start, size_t fan_in, size_t fan_out) {
  const double in = static_cast<double>(fan_in);
  const double out = static_cast<double>(fan_out);
  const auto normal = [](double value) {
    return ParameterInit{ParameterInit::Kind::kNormal,
                         static_cast<float>(value)};
  };
  const auto uniform = [](double value) {
    return ParameterInit{ParameterInit::Kind::kUniform,
                         static_cast<float>(value)};
  };
  switch (start) {
    case WeightStart::kHeNormal:
      return normal(std::sqrt(2 / in));
    case WeightStart::kXavierUniform:
      return uniform(std::sqrt(6 / (in + out)));
    case WeightStart::kFanInUniform:
      return uniform(1 / std::sqrt(in));
    case WeightStart::kZero:
      return {};
    case WeightStart::kFanInNormal:
      break;
  }
  return normal(1 / std::sqrt(in));
}

// A dense parameter in the flat vector of the model.
struct ParameterSpec {
  std::string name;           // "fc1/weight"
  std::vector<size_t> shape;  // outermost first
  size_t offset = 0;          // first float in the vector
  ParameterInit init;
};

}  // namespace oarlock::nn

#endif  // OARLOCK_NN_PARAMETER_H_
