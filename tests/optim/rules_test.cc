#include "optim/rules.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/random.h"

namespace oarlock {
namespace {

constexpr uint64_t kSeed = 20240601;

v1::OptimizerConfig Sgd(float learning_rate) {
  v1::OptimizerConfig config;
  config.set_learning_rate(learning_rate);
  config.mutable_sgd();
  return config;
}

UpdateRule Rule(const v1::OptimizerConfig& config) {
  absl::StatusOr<UpdateRule> rule = UpdateRule::Create(config);
  EXPECT_TRUE(rule.ok()) << rule.status();
  return *rule;
}

// Random steps with `rule` on n weights, each compared with what
// `step(w, g, i, t)` makes of the double-precision weight i in update t.
template <typename Step>
void CompareWithDoubles(const UpdateRule& rule, size_t n, int num_steps,
                        double tolerance, Step step) {
  SCOPED_TRACE(testing::Message() << "seed " << kSeed << ", n " << n);
  RandomSequence random(kSeed + n);
  std::vector<float> weights(n);
  for (float& w : weights) w = static_cast<float>(random.Uniform() - 0.5);
  std::vector<double> model(weights.begin(), weights.end());
  std::vector<float> state(rule.StateSize(n));
  rule.InitState(state.data(), n);
  std::vector<float> gradients(n);
  for (int t = 1; t <= num_steps; ++t) {
    for (float& g : gradients) {
      // Some zeros, some tiny, some large.
      const double scale = std::pow(10.0, 4.0 * random.Uniform() - 3.0);
      g = random.Below(8) == 0
              ? 0.0f
              : static_cast<float>((random.Uniform() - 0.5) * scale);
    }
    rule.Apply(/*step=*/t, weights.data(), state.data(), gradients.data(), n);
    for (size_t i = 0; i < n; ++i) {
      step(&model[i], static_cast<double>(gradients[i]), i, t);
      ASSERT_NEAR(weights[i], model[i], tolerance)
          << "weight " << i << " after update " << t;
    }
  }
}

class RulesTest : public testing::TestWithParam<size_t> {};

TEST_P(RulesTest, SgdFollowsItsFormulaInDoubles) {
  const UpdateRule rule = Rule(Sgd(0.1f));
  EXPECT_EQ(rule.StateSize(GetParam()), 0u);
  CompareWithDoubles(rule, GetParam(), 50, 1e-5,
                     [](double* w, double g, size_t, int) {
                       *w -= static_cast<double>(0.1f) * g;
                     });
}

TEST_P(RulesTest, AdagradFollowsItsFormulaInDoubles) {
  const size_t n = GetParam();
  for (const float initial : {0.0f, 0.1f}) {
    for (const float epsilon : {0.0f, 1e-3f}) {
      v1::OptimizerConfig config;
      config.set_learning_rate(0.05f);
      config.mutable_adagrad()->set_initial_accumulator(initial);
      config.mutable_adagrad()->set_epsilon(epsilon);
      const UpdateRule rule = Rule(config);
      EXPECT_EQ(rule.StateSize(n), n);
      const double used = epsilon == 0 ? 1e-10 : static_cast<double>(epsilon);
      std::vector<double> sums(n, initial);
      CompareWithDoubles(
          rule, n, 100, 1e-5, [&](double* w, double g, size_t i, int) {
            sums[i] += g * g;
            *w -= static_cast<double>(0.05f) * g / (std::sqrt(sums[i]) + used);
          });
    }
  }
}

TEST_P(RulesTest, AdamFollowsItsFormulaInDoubles) {
  const size_t n = GetParam();
  struct Betas {
    float configured1, configured2, used1, used2;
  };
  for (const Betas& betas :
       {Betas{0, 0, 0.9f, 0.999f}, Betas{0.5f, 0.75f, 0.5f, 0.75f}}) {
    v1::OptimizerConfig config;
    config.set_learning_rate(0.01f);
    config.mutable_adam()->set_beta1(betas.configured1);
    config.mutable_adam()->set_beta2(betas.configured2);
    const UpdateRule rule = Rule(config);
    EXPECT_EQ(rule.StateSize(n), 2 * n + 2);
    const double beta1 = betas.used1;
    const double beta2 = betas.used2;
    std::vector<double> m(n), v(n);
    CompareWithDoubles(
        rule, n, 300, 1e-4, [&](double* w, double g, size_t i, int t) {
          m[i] = beta1 * m[i] + (1 - beta1) * g;
          v[i] = beta2 * v[i] + (1 - beta2) * g * g;
          *w -= static_cast<double>(0.01f) * std::sqrt(1 - std::pow(beta2, t)) /
                (1 - std::pow(beta1, t)) * m[i] / (std::sqrt(v[i]) + 1e-8);
        });
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, RulesTest,
                         testing::Values(1, 3, 4, 10, 16, 33, 1024));

TEST(UpdateRuleTest, FirstAdagradStepWithoutAccumulatorIsTheLearningRate) {
  v1::OptimizerConfig config;
  config.set_learning_rate(0.01f);
  config.mutable_adagrad();
  const UpdateRule rule = Rule(config);
  float w = 0;
  std::vector<float> state(rule.StateSize(1));
  rule.InitState(state.data(), 1);
  const float g = 1e-4f;
  rule.Apply(/*step=*/1, &w, state.data(), &g, 1);
  // Up to epsilon, a millionth of the gradient.
  EXPECT_NEAR(w, -0.01f, 1e-7f);
}

TEST(UpdateRuleTest, WarmupRaisesTheLearningRateLinearlyAndThenStops) {
  v1::OptimizerConfig config = Sgd(1.0f);
  config.set_warmup_steps(4);
  const UpdateRule rule = Rule(config);
  const float g = 1;
  float w = 0;
  std::vector<float> moved;
  for (uint64_t push = 1; push <= 6; ++push) {
    const float before = w;
    rule.Apply(push, &w, nullptr, &g, 1);
    moved.push_back(before - w);
  }
  EXPECT_EQ(moved, (std::vector<float>{.25f, .5f, .75f, 1, 1, 1}));
}

TEST(UpdateRuleTest, AZeroGradientMovesNoFreshWeight) {
  v1::OptimizerConfig adagrad, adam;
  adagrad.set_learning_rate(0.1f);
  adagrad.mutable_adagrad();
  adam.set_learning_rate(0.1f);
  adam.mutable_adam();
  for (const v1::OptimizerConfig& config : {Sgd(0.1f), adagrad, adam}) {
    const UpdateRule rule = Rule(config);
    float w = 0.25f;
    std::vector<float> state(rule.StateSize(1));
    rule.InitState(state.data(), 1);
    const float g = 0;
    rule.Apply(/*step=*/1, &w, state.data(), &g, 1);
    EXPECT_EQ(w, 0.25f);
  }
}

TEST(UpdateRuleTest, WhatIsOutOfRangeIsRefusedByName) {
  const auto refused = [](const v1::OptimizerConfig& config,
                          const std::string& name) {
    const absl::Status status = UpdateRule::Create(config).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find(name), std::string::npos) << status;
  };
  refused(v1::OptimizerConfig(), "no rule");
  refused(Sgd(std::numeric_limits<float>::quiet_NaN()), "learning_rate");
  refused(Sgd(std::numeric_limits<float>::infinity()), "learning_rate");
  v1::OptimizerConfig config;
  config.mutable_adagrad()->set_initial_accumulator(-1);
  refused(config, "adagrad.initial_accumulator");
  config.mutable_adagrad()->set_initial_accumulator(0);
  config.mutable_adagrad()->set_epsilon(std::numeric_limits<float>::infinity());
  refused(config, "adagrad.epsilon");
  config.mutable_adam()->set_beta1(1);
  refused(config, "adam.beta1");
  config.mutable_adam()->set_beta1(0);
  config.mutable_adam()->set_beta2(-0.5f);
  refused(config, "adam.beta2");
  config.mutable_adam()->set_beta2(0);
  config.mutable_adam()->set_epsilon(-1);
  refused(config, "adam.epsilon");
}

}  // namespace
}  // namespace oarlock
