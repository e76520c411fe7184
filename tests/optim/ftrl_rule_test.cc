#include "optim/ftrl_rule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/random.h"
#include "tests/optim/rule_testing.h"

namespace oarlock::optim {
namespace {

constexpr uint64_t kSeed = 20130811;

v1::OptimizerConfig Ftrl(float alpha, float beta, float l1, float l2) {
  v1::OptimizerConfig config;
  config.set_learning_rate(alpha);
  config.mutable_ftrl()->set_beta(beta);
  config.set_l1(l1);
  config.set_l2(l2);
  return config;
}

// Algorithm 1 of the paper, line by line, in doubles: the weight comes from z
// and N, and from nothing else.
struct PaperFtrl {
  double alpha, beta, l1, l2;
  double z = 0;
  double sum = 0;

  double Weight() const {
    if (std::abs(z) <= l1) return 0;
    const double sign = z < 0 ? -1 : 1;
    return -(z - sign * l1) / ((beta + std::sqrt(sum)) / alpha + l2);
  }
  void Update(double g) {
    const double sigma = (std::sqrt(sum + g * g) - std::sqrt(sum)) / alpha;
    z += g - sigma * Weight();
    sum += g * g;
  }
};

struct Settings {
  float alpha, beta, l1, l2;
};

TEST(FtrlRuleTest, WeightsAreThoseOfThePapersAlgorithm) {
  constexpr size_t kSize = 50;
  for (const Settings& s :
       {Settings{0.1f, 1, 0, 0}, Settings{0.1f, 1, 0.5f, 0},
        Settings{0.05f, 0.002f, 0, 0.3f}, Settings{0.5f, 1, 2, 0.1f}}) {
    SCOPED_TRACE(testing::Message()
                 << "seed " << kSeed << ", alpha " << s.alpha << ", beta "
                 << s.beta << ", l1 " << s.l1 << ", l2 " << s.l2);
    RandomSequence random(kSeed);
    const UpdateRule rule = RuleOf(Ftrl(s.alpha, s.beta, s.l1, s.l2));
    Weights weights(rule, std::vector<float>(kSize));
    EXPECT_EQ(weights.state.size(), 2 * kSize);
    std::vector<PaperFtrl> paper(kSize, PaperFtrl{s.alpha, s.beta, s.l1, s.l2});
    int zeros = 0, crossings = 0;
    std::vector<float> last_sign(kSize);
    for (int t = 1; t <= 400; ++t) {
      // A drift that turns round, so that weights grow, come back and cross.
      std::vector<float> g = RandomGradients(&random, kSize);
      for (size_t i = 0; i < kSize; ++i) g[i] += t % 200 < 100 ? 0.2f : -0.2f;
      weights.Apply(rule, t, g);
      for (size_t i = 0; i < kSize; ++i) {
        paper[i].Update(g[i]);
        const double expected = paper[i].Weight();
        ASSERT_NEAR(weights.w[i], expected, 2e-5 * (1 + std::abs(expected)))
            << "weight " << i << " after update " << t;
        zeros += t > 50 && weights.w[i] == 0;
        crossings += weights.w[i] * last_sign[i] < 0;
        if (weights.w[i] != 0) last_sign[i] = std::copysign(1, weights.w[i]);
      }
    }
    EXPECT_EQ(zeros > 0, s.l1 > 0);
    EXPECT_GT(crossings, 0);
  }
}

TEST(FtrlRuleTest, AWeightUnderL1StaysAtZeroUntilItsGradientsAddUp) {
  const UpdateRule rule = RuleOf(Ftrl(0.1f, 1, 1.0f, 0));
  Weights weights(rule, {0});
  for (int t = 1; t <= 4; ++t) {
    weights.Apply(rule, t, {0.25f});
    EXPECT_EQ(weights.w[0], 0) << "after update " << t;
  }
  weights.Apply(rule, 5, {0.25f});
  EXPECT_LT(weights.w[0], 0);
}

TEST(FtrlRuleTest, ARowBeginsWithItsInitialValue) {
  const UpdateRule rule = RuleOf(Ftrl(0.1f, 1, 0.5f, 0.25f));
  Weights weights(rule, {0.3f, -0.3f});
  weights.Apply(rule, 1, {0.5f, 0.5f});
  const double step = 0.5 / ((1 + 0.5) / 0.1 + 0.25);
  EXPECT_NEAR(weights.w[0], 0.3 - step, 1e-6);
  EXPECT_NEAR(weights.w[1], -0.3 - step, 1e-6);
}

TEST(FtrlRuleTest, AnotherLearningRateChangesTheNextStepAndNotTheWeight) {
  v1::OptimizerConfig config = Ftrl(0.1f, 1, 0.1f, 0.1f);
  const UpdateRule full = RuleOf(config);
  config.set_warmup_steps(1000);
  const UpdateRule warming = RuleOf(config);
  Weights weights(full, {0});
  for (int t = 1; t <= 100; ++t) weights.Apply(full, t, {0.5f});
  const float learned = weights.w[0];
  EXPECT_LT(learned, -0.1f);
  weights.Apply(warming, 1, {0.5f});
  EXPECT_NEAR(weights.w[0], learned, 1e-4);
}

// A worker applies its own gradients to parameters that it gets from a server,
// with state that has not seen the others' gradients.
TEST(FtrlRuleTest, AWeightThatWasSetFromOutsideIsWhereTheNextStepBegins) {
  const UpdateRule rule = RuleOf(Ftrl(0.1f, 1, 0.5f, 0));
  Weights weights(rule, {0, 0, 0});
  for (int t = 1; t <= 10; ++t) weights.Apply(rule, t, {0.5f, -0.5f, 0.02f});
  const float step = 0.1f * 0.5f / (1 + std::sqrt(10 * 0.25f + 0.25f));
  weights.w = {1, -1, 1};
  weights.Apply(rule, 11, {0.5f, 0.5f, 0});
  EXPECT_NEAR(weights.w[0], 1 - step, 1e-6);
  EXPECT_NEAR(weights.w[1], -1 - step, 1e-6);
  EXPECT_EQ(weights.w[2], 1);
  // A weight set to 0 remembers at most l1 of what moved it before.
  weights.w = {0, 0, 0};
  weights.Apply(rule, 12, {0, 0, 0});
  EXPECT_EQ(weights.w, std::vector<float>(3));
}

TEST(FtrlRuleTest, LongTrainingKeepsDigits) {
  constexpr int kSteps = 200'000;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  RandomSequence random(kSeed);
  const UpdateRule rule = RuleOf(Ftrl(0.1f, 1, 0.01f, 0.01f));
  Weights weights(rule, {0});
  PaperFtrl paper{0.1f, 1, 0.01f, 0.01f};
  for (int t = 1; t <= kSteps; ++t) {
    // The gradient of log loss with a label that is 1 in a quarter of cases.
    const double label = random.Below(4) == 0 ? 1 : 0;
    const float g =
        static_cast<float>(1 / (1 + std::exp(-paper.Weight())) - label);
    weights.Apply(rule, t, {g});
    paper.Update(g);
  }
  EXPECT_NEAR(paper.Weight(), std::log(1.0 / 3), 0.05);
  EXPECT_NEAR(weights.w[0], paper.Weight(), 1e-4);
}

}  // namespace
}  // namespace oarlock::optim
