// What the tests of update rules share.

#ifndef OARLOCK_TESTS_OPTIM_RULE_TESTING_H_
#define OARLOCK_TESTS_OPTIM_RULE_TESTING_H_

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/random.h"
#include "optim/rules.h"
#include "proto/v1/table.pb.h"

namespace oarlock::optim {

inline UpdateRule RuleOf(const v1::OptimizerConfig& config) {
  absl::StatusOr<UpdateRule> rule = UpdateRule::Create(config);
  EXPECT_TRUE(rule.ok()) << rule.status();
  return *rule;
}

// Within [-0.5, 0.5).
inline std::vector<float> RandomWeights(RandomSequence* random, size_t n) {
  std::vector<float> weights(n);
  for (float& w : weights) w = static_cast<float>(random->Uniform() - 0.5);
  return weights;
}

// Some zeros, some tiny, some large.
inline std::vector<float> RandomGradients(RandomSequence* random, size_t n) {
  std::vector<float> gradients(n);
  for (float& g : gradients) {
    const double scale = std::pow(10.0, 4.0 * random->Uniform() - 3.0);
    g = random->Below(8) == 0
            ? 0.0f
            : static_cast<float>((random->Uniform() - 0.5) * scale);
  }
  return gradients;
}

// Weights under a rule, with their state.
struct Weights {
  Weights(const UpdateRule& rule, std::vector<float> initial)
      : w(std::move(initial)), state(rule.StateSize(w.size())) {
    rule.InitState(state.data(), w.size());
  }
  void Apply(const UpdateRule& rule, uint64_t step,
             const std::vector<float>& g) {
    rule.Apply(step, w.data(), state.data(), g.data(), w.size());
  }

  std::vector<float> w;
  std::vector<float> state;
};

// One of each rule, with numbers other than the defaults.
std::vector<v1::OptimizerConfig> OneOfEachRule();

}  // namespace oarlock::optim

#endif  // OARLOCK_TESTS_OPTIM_RULE_TESTING_H_
