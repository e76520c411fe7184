#include "optim/dense_optimizer.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "tests/optim/rule_testing.h"

namespace oarlock::optim {
namespace {

constexpr uint64_t kSeed = 31;
const std::vector<ParameterBlock> kBlocks = {
    {.size = 40}, {.size = 1}, {.size = 1500}, {.size = 7, .decays = false}};
constexpr size_t kSize = 1548;

DenseOptimizer Make(const v1::OptimizerConfig& config,
                    const std::vector<ParameterBlock>& blocks = kBlocks) {
  absl::StatusOr<DenseOptimizer> optimizer =
      DenseOptimizer::Create(config, blocks);
  EXPECT_TRUE(optimizer.ok()) << optimizer.status();
  return *std::move(optimizer);
}

std::vector<v1::OptimizerConfig> RulesWithOptions() {
  std::vector<v1::OptimizerConfig> configs = OneOfEachRule();
  for (v1::OptimizerConfig config : OneOfEachRule()) {
    config.set_warmup_steps(3);
    config.mutable_schedule()->mutable_cosine()->set_steps(40);
    config.set_l1(0.01f);
    if (UpdateRule::Create(config).ok()) configs.push_back(config);
    config.set_l2(0.02f);
    if (UpdateRule::Create(config).ok()) configs.push_back(config);
  }
  return configs;
}

// The same without what pulls weights to 0, written by hand.
v1::OptimizerConfig WithoutDecay(v1::OptimizerConfig config) {
  config.set_l1(0);
  config.set_l2(0);
  if (config.has_lars()) config.mutable_lars()->set_weight_decay(0);
  if (config.has_adamw()) {
    const v1::Adamw adamw = config.adamw();
    v1::Adam* adam = config.mutable_adam();
    if (adamw.has_beta1()) adam->set_beta1(adamw.beta1());
    if (adamw.has_beta2()) adam->set_beta2(adamw.beta2());
    if (adamw.has_epsilon()) adam->set_epsilon(adamw.epsilon());
  }
  return config;
}

TEST(DenseOptimizerTest, EachParameterIsUpdatedByTheRuleByItself) {
  for (const v1::OptimizerConfig& config : RulesWithOptions()) {
    SCOPED_TRACE(testing::Message()
                 << "seed " << kSeed << ", " << config.ShortDebugString());
    DenseOptimizer optimizer = Make(config);
    ASSERT_EQ(optimizer.size(), kSize);
    RandomSequence random(kSeed);
    std::vector<float> parameters = RandomWeights(&random, kSize);
    std::vector<Weights> model;
    size_t begin = 0;
    for (const ParameterBlock& block : kBlocks) {
      const auto first = parameters.begin() + begin;
      model.emplace_back(RuleOf(config),
                         std::vector<float>(first, first + block.size));
      begin += block.size;
    }
    uint64_t step = 0;
    for (const uint32_t num_steps : {1, 1, 4, 1, 2, 1}) {
      step += num_steps;
      const std::vector<float> g = RandomGradients(&random, kSize);
      optimizer.Step(parameters.data(), g.data(), num_steps);
      std::vector<float> expected;
      for (size_t i = 0; i < kBlocks.size(); ++i) {
        const UpdateRule rule =
            RuleOf(kBlocks[i].decays ? config : WithoutDecay(config));
        const auto first = g.begin() + expected.size();
        model[i].Apply(rule, step, {first, first + kBlocks[i].size});
        expected.insert(expected.end(), model[i].w.begin(), model[i].w.end());
      }
      ASSERT_EQ(parameters, expected) << "after step " << step;
      ASSERT_EQ(optimizer.steps(), step);
    }
  }
}

TEST(DenseOptimizerTest, RestoredStateGoesOnAsIfNothingHadHappened) {
  for (const v1::OptimizerConfig& config : RulesWithOptions()) {
    SCOPED_TRACE(testing::Message()
                 << "seed " << kSeed << ", " << config.ShortDebugString());
    DenseOptimizer first = Make(config);
    RandomSequence random(kSeed);
    std::vector<float> parameters = RandomWeights(&random, kSize);
    for (int i = 0; i < 5; ++i) {
      first.Step(parameters.data(), RandomGradients(&random, kSize).data());
    }
    DenseOptimizer second = Make(config);
    const absl::Status restored = second.RestoreState(first.SaveState());
    ASSERT_TRUE(restored.ok()) << restored;
    EXPECT_EQ(second.steps(), 5u);
    EXPECT_EQ(second.SaveState(), first.SaveState());
    std::vector<float> copy = parameters;
    for (int i = 0; i < 5; ++i) {
      const std::vector<float> g = RandomGradients(&random, kSize);
      first.Step(parameters.data(), g.data());
      second.Step(copy.data(), g.data());
    }
    EXPECT_EQ(copy, parameters);
  }
}

TEST(DenseOptimizerTest, AFlippedByteOrAMissingOneIsDataLossAndChangesNothing) {
  v1::OptimizerConfig config;
  config.set_learning_rate(0.1f);
  config.mutable_momentum();
  const std::vector<ParameterBlock> blocks = {{.size = 3}, {.size = 2}};
  DenseOptimizer saved = Make(config, blocks);
  std::vector<float> parameters(5, 1);
  saved.Step(parameters.data(), parameters.data());
  const std::string bytes = saved.SaveState();
  DenseOptimizer optimizer = Make(config, blocks);
  const std::string before = optimizer.SaveState();
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] ^= 0x10;
    EXPECT_EQ(optimizer.RestoreState(damaged).code(),
              absl::StatusCode::kDataLoss)
        << "byte " << at;
    EXPECT_EQ(optimizer.RestoreState(bytes.substr(0, at)).code(),
              absl::StatusCode::kDataLoss)
        << at << " bytes";
  }
  EXPECT_EQ(optimizer.RestoreState(bytes + "x").code(),
            absl::StatusCode::kDataLoss);
  EXPECT_EQ(optimizer.SaveState(), before);
  EXPECT_TRUE(optimizer.RestoreState(bytes).ok());
}

TEST(DenseOptimizerTest, StateOfAnotherRuleOrOtherParametersIsRefused) {
  v1::OptimizerConfig momentum;
  momentum.mutable_momentum();
  v1::OptimizerConfig adagrad;
  adagrad.mutable_adagrad();
  const std::string bytes = Make(momentum).SaveState();
  DenseOptimizer other_rule = Make(adagrad);
  DenseOptimizer other_blocks = Make(momentum, {{.size = kSize}});
  for (DenseOptimizer* const optimizer : {&other_rule, &other_blocks}) {
    const absl::Status status = optimizer->RestoreState(bytes);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_EQ(status.message().find('\n'), std::string::npos) << status;
  }
}

TEST(DenseOptimizerTest, LearningRateIsThatOfTheLastStep) {
  v1::OptimizerConfig config;
  config.set_learning_rate(8);
  config.set_warmup_steps(4);
  config.mutable_sgd();
  DenseOptimizer optimizer = Make(config, {{.size = 1}});
  EXPECT_EQ(optimizer.learning_rate(), 2);
  float parameter = 0;
  const float gradient = 1;
  optimizer.Step(&parameter, &gradient);
  EXPECT_EQ(optimizer.learning_rate(), 2);
  EXPECT_EQ(parameter, -2);
  optimizer.Step(&parameter, &gradient);
  EXPECT_EQ(optimizer.learning_rate(), 4);
  EXPECT_EQ(parameter, -6);
}

TEST(DenseOptimizerTest, AnEmptyBlockOrABadRuleIsRefused) {
  v1::OptimizerConfig config;
  EXPECT_FALSE(DenseOptimizer::Create(config, {{{.size = 1}}}).ok());
  config.mutable_sgd();
  const std::vector<ParameterBlock> empty = {{.size = 1}, {.size = 0}};
  const absl::Status status = DenseOptimizer::Create(config, empty).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("block 1"), std::string::npos) << status;
}

}  // namespace
}  // namespace oarlock::optim
