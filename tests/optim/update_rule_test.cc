// What stands around the rules: options, dispatch, refusals.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <variant>
#include <vector>

#include "base/random.h"
#include "hwy/targets.h"
#include "optim/rules.h"
#include "tests/optim/rule_testing.h"

namespace oarlock::optim {
namespace {

constexpr uint64_t kSeed = 77;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

v1::OptimizerConfig Sgd(float learning_rate) {
  v1::OptimizerConfig config;
  config.set_learning_rate(learning_rate);
  config.mutable_sgd();
  return config;
}

// The same rule with everything that may stand around it.
std::vector<v1::OptimizerConfig> WithOptions(v1::OptimizerConfig config) {
  std::vector<v1::OptimizerConfig> configs = {config};
  config.mutable_weight_bounds()->set_lower(-0.4f);
  config.mutable_weight_bounds()->set_upper(0.45f);
  config.set_warmup_steps(5);
  config.mutable_schedule()->mutable_cosine()->set_steps(30);
  configs.push_back(config);
  config.set_l1(0.01f);
  if (!config.has_adamw() && !config.has_lars()) config.set_l2(0.02f);
  if (UpdateRule::Create(config).ok()) configs.push_back(config);
  return configs;
}

TEST(UpdateRuleTest, EveryInstructionSetGivesTheBitsOfTheRulesOwnLoop) {
  const int64_t supported = hwy::SupportedTargets();
  int num_sets = 0;
  for (const v1::OptimizerConfig& plain : OneOfEachRule()) {
    for (const v1::OptimizerConfig& config : WithOptions(plain)) {
      const UpdateRule rule = RuleOf(config);
      for (int64_t rest = supported; rest != 0; rest &= rest - 1) {
        hwy::SetSupportedTargetsForTest(rest & -rest);
        ++num_sets;
        for (const size_t n : {1, 7, 8, 10, 33, 1024, 1500}) {
          SCOPED_TRACE(testing::Message()
                       << "seed " << kSeed << ", n " << n << ", set "
                       << hwy::TargetName(rest & -rest) << ", "
                       << config.ShortDebugString());
          RandomSequence random(kSeed + n);
          const std::vector<float> initial = RandomWeights(&random, n);
          Weights wide(rule, initial), row(rule, initial);
          for (int t = 1; t <= 12; ++t) {
            const std::vector<float> g = RandomGradients(&random, n);
            wide.Apply(rule, t, g);
            rule.Visit([&](const auto& own) {
              rule.ForStep(own, t).Apply(row.w.data(), row.state.data(),
                                         g.data(), n);
            });
            ASSERT_EQ(wide.w, row.w) << "after update " << t;
            ASSERT_EQ(wide.state, row.state) << "after update " << t;
          }
        }
      }
      hwy::SetSupportedTargetsForTest(0);
    }
  }
  EXPECT_GT(num_sets, 0);
}

TEST(UpdateRuleTest, RegularisationIsAddedToTheGradient) {
  for (const v1::OptimizerConfig& plain : OneOfEachRule()) {
    v1::OptimizerConfig config = plain;
    config.set_l1(0.1f);
    config.set_l2(config.has_adamw() || config.has_lars() ? 0 : 0.3f);
    if (config.has_ftrl() || !UpdateRule::Create(config).ok()) continue;
    SCOPED_TRACE(testing::Message()
                 << "seed " << kSeed << ", " << config.ShortDebugString());
    RandomSequence random(kSeed);
    // Longer than what is kept on the stack.
    for (const size_t n : {5, 2000}) {
      const UpdateRule with = RuleOf(config), without = RuleOf(plain);
      std::vector<float> initial = RandomWeights(&random, n);
      initial[1] = 0;
      Weights regularised(with, initial), model(without, initial);
      for (int t = 1; t <= 10; ++t) {
        std::vector<float> g = RandomGradients(&random, n);
        regularised.Apply(with, t, g);
        for (size_t i = 0; i < n; ++i) {
          const float w = model.w[i];
          const float sign = w > 0 ? 1 : (w < 0 ? -1 : 0);
          g[i] += config.l2() * w + config.l1() * sign;
        }
        model.Apply(without, t, g);
        ASSERT_EQ(regularised.w, model.w) << "after update " << t;
      }
    }
  }
}

TEST(UpdateRuleTest, BoundsHoldAfterEveryUpdateOfEveryRule) {
  for (v1::OptimizerConfig config : OneOfEachRule()) {
    config.set_learning_rate(10);
    config.mutable_weight_bounds()->set_lower(-0.25f);
    config.mutable_weight_bounds()->set_upper(0.5f);
    SCOPED_TRACE(config.ShortDebugString());
    const UpdateRule rule = RuleOf(config);
    Weights weights(rule, {0, 0, 0.75f});
    for (int t = 1; t <= 5; ++t) {
      weights.Apply(rule, t, {-5, 5, -5});
      EXPECT_EQ(weights.w[0], 0.5f);
      EXPECT_EQ(weights.w[1], -0.25f);
      EXPECT_EQ(weights.w[2], 0.5f);
    }
  }
}

TEST(UpdateRuleTest, PaddlesAdagradsAndNaiveAreBoundedByTen) {
  for (v1::OptimizerConfig config : OneOfEachRule()) {
    const bool bounded =
        config.has_paddle_naive() || config.has_paddle_adagrad() ||
        config.has_paddle_std_adagrad() || config.has_paddle_adagrad_v2();
    SCOPED_TRACE(config.ShortDebugString());
    config.set_learning_rate(100);
    const UpdateRule rule = RuleOf(config);
    Weights weights(rule, {0});
    for (int t = 1; t <= 20; ++t) weights.Apply(rule, t, {-100});
    EXPECT_EQ(std::abs(weights.w[0]) <= 10, bounded) << weights.w[0];
  }
}

TEST(UpdateRuleTest, ANotANumberStaysOneUnderEveryRule) {
  for (v1::OptimizerConfig config : OneOfEachRule()) {
    config.mutable_weight_bounds()->set_lower(-1);
    config.mutable_weight_bounds()->set_upper(1);
    SCOPED_TRACE(config.ShortDebugString());
    const UpdateRule rule = RuleOf(config);
    Weights weights(rule, {0, 0.5f});
    weights.Apply(rule, 1, {kNan, kNan});
    EXPECT_TRUE(std::isnan(weights.w[0]));
    EXPECT_TRUE(std::isnan(weights.w[1]));
  }
}

TEST(UpdateRuleTest, CommonRulesWithoutOptionsHaveLoopsOfTheirOwn) {
  const auto own_loops = [](const v1::OptimizerConfig& config) {
    return RuleOf(config).Visit(
        []<typename Rule>(const Rule&) { return kHasOwnLoops<Rule>; });
  };
  for (v1::OptimizerConfig config : OneOfEachRule()) {
    SCOPED_TRACE(config.ShortDebugString());
    EXPECT_EQ(own_loops(config), config.has_sgd() || config.has_adagrad() ||
                                     config.has_adam() || config.has_ftrl());
    config.mutable_weight_bounds()->set_upper(1);
    EXPECT_FALSE(own_loops(config));
  }
}

TEST(UpdateRuleTest, WarmUpAndScheduleScaleTheLearningRate) {
  v1::OptimizerConfig config = Sgd(1.0f);
  config.set_warmup_steps(4);
  auto* pieces = config.mutable_schedule()->mutable_piecewise();
  for (const auto& [until, factor] : {std::pair{5, 1.0f}, {6, 0.5f}}) {
    v1::PiecewiseRate::Piece* piece = pieces->add_pieces();
    piece->set_until_step(until);
    piece->set_factor(factor);
  }
  const UpdateRule rule = RuleOf(config);
  Weights weights(rule, {0});
  std::vector<float> moved;
  for (uint64_t step = 1; step <= 7; ++step) {
    const float before = weights.w[0];
    weights.Apply(rule, step, {1});
    moved.push_back(before - weights.w[0]);
  }
  EXPECT_EQ(moved, (std::vector<float>{.25f, .5f, .75f, 1, 1, .5f, .5f}));
}

void ExpectRefused(const v1::OptimizerConfig& config, const std::string& name) {
  const absl::Status status = UpdateRule::Create(config).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
  EXPECT_NE(status.message().find(name), std::string::npos) << status;
  EXPECT_EQ(status.message().find('\n'), std::string::npos) << status;
}

TEST(UpdateRuleTest, APartOfTheRateIsAShorterStepOfTheSameState) {
  v1::OptimizerConfig adagrad = Sgd(0.5f);
  adagrad.mutable_adagrad();
  v1::OptimizerConfig momentum = Sgd(0.5f);
  momentum.mutable_momentum()->set_momentum(0.9f);
  for (const v1::OptimizerConfig& config : {adagrad, momentum}) {
    SCOPED_TRACE(config.ShortDebugString());
    const UpdateRule rule = RuleOf(config);
    Weights whole(rule, {0}), half(rule, {0});
    const float gradient = 3;
    rule.Apply(1, whole.w.data(), whole.state.data(), &gradient, 1);
    rule.Apply(1, half.w.data(), half.state.data(), &gradient, 1,
               /*rate_factor=*/0.5f);
    EXPECT_EQ(half.state, whole.state);
    EXPECT_NE(whole.w[0], 0);
    EXPECT_FLOAT_EQ(half.w[0], whole.w[0] / 2);
  }
}

TEST(UpdateRuleTest, WhatIsOutOfRangeIsRefusedByName) {
  ExpectRefused(v1::OptimizerConfig(), "no rule");
  ExpectRefused(Sgd(kNan), "learning_rate");
  ExpectRefused(Sgd(kInfinity), "learning_rate");
  v1::OptimizerConfig config;
  config.mutable_adagrad()->set_initial_accumulator(-1);
  ExpectRefused(config, "adagrad.initial_accumulator");
  config.mutable_adagrad()->set_initial_accumulator(0);
  config.mutable_adagrad()->set_epsilon(kInfinity);
  ExpectRefused(config, "adagrad.epsilon");
  config.mutable_adagrad()->set_epsilon(0);
  ExpectRefused(config, "adagrad.epsilon");
  config.mutable_shared_adagrad()->set_epsilon(-1);
  ExpectRefused(config, "shared_adagrad.epsilon");
  config.mutable_adam()->set_beta1(1);
  ExpectRefused(config, "adam.beta1");
  config.mutable_adam()->set_beta1(0);
  config.mutable_adam()->set_beta2(-0.5f);
  ExpectRefused(config, "adam.beta2");
  config.mutable_adam()->set_beta2(0);
  for (const float epsilon : {-1.0f, 0.0f}) {
    config.mutable_adam()->set_epsilon(epsilon);
    ExpectRefused(config, "adam.epsilon");
  }
  config.mutable_lazy_adam()->set_beta1(kNan);
  ExpectRefused(config, "lazy_adam.beta1");
  config.mutable_adamw()->set_weight_decay(-1);
  ExpectRefused(config, "adamw.weight_decay");
  config.mutable_momentum()->set_momentum(1);
  ExpectRefused(config, "momentum.momentum");
  for (const float beta : {-1.0f, 0.0f}) {
    config.mutable_ftrl()->set_beta(beta);
    ExpectRefused(config, "ftrl.beta");
  }
  config.mutable_ftrl()->set_beta(1);
  config.set_learning_rate(-1);
  ExpectRefused(config, "learning_rate");
  for (const float initial : {-1.0f, 0.0f}) {
    config.mutable_paddle_std_adagrad()->set_initial_g2sum(initial);
    ExpectRefused(config, "paddle_std_adagrad.initial_g2sum");
  }
  config.mutable_lars()->set_momentum(1);
  ExpectRefused(config, "lars.momentum");
  config.mutable_lars()->set_momentum(0);
  config.mutable_lars()->set_coefficient(-1);
  ExpectRefused(config, "lars.coefficient");
  config.mutable_lars()->set_coefficient(0);
  config.mutable_lars()->set_weight_decay(-1);
  ExpectRefused(config, "lars.weight_decay");
  config.mutable_lars()->set_weight_decay(0);
  config.mutable_lars()->set_epsilon(kNan);
  ExpectRefused(config, "lars.epsilon");
}

TEST(UpdateRuleTest, OptionsThatMakeNoSenseAreRefusedByName) {
  const auto sgd_with = [](auto set) {
    v1::OptimizerConfig config = Sgd(1);
    set(&config);
    return config;
  };
  using Config = v1::OptimizerConfig;
  ExpectRefused(sgd_with([](Config* c) { c->set_l1(-1); }), "l1");
  ExpectRefused(sgd_with([](Config* c) { c->set_l2(kInfinity); }), "l2");
  ExpectRefused(sgd_with([](Config* c) { c->mutable_weight_bounds(); }),
                "weight_bounds");
  ExpectRefused(
      sgd_with([](Config* c) { c->mutable_weight_bounds()->set_upper(kNan); }),
      "weight_bounds");
  for (Config config : OneOfEachRule()) {
    const bool paddle =
        config.ShortDebugString().find("paddle_") != std::string::npos;
    config.set_l1(0.1f);
    EXPECT_EQ(UpdateRule::Create(config).ok(), !paddle)
        << config.ShortDebugString();
    config.set_l2(0.1f);
    const bool decays = config.has_adamw() || config.has_lars();
    EXPECT_EQ(UpdateRule::Create(config).ok(), !paddle && !decays)
        << config.ShortDebugString();
  }
}

}  // namespace
}  // namespace oarlock::optim
