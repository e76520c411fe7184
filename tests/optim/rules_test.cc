// Every rule against a loop in doubles, written from its formula.

#include "optim/rules.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "base/random.h"
#include "tests/optim/rule_testing.h"

namespace oarlock::optim {
namespace {

constexpr uint64_t kSeed = 20240601;
constexpr float kRate = 0.05f;
constexpr double kLr = kRate;

using Doubles = std::vector<double>;
// Update number t of w by g, with state of its own.
using Model = std::function<void(Doubles& w, const Doubles& g, int t)>;

struct RuleCase {
  std::string name;
  std::function<void(v1::OptimizerConfig*)> set;
  std::function<size_t(size_t n)> state_size;
  // Of n weights.
  std::function<Model(size_t n)> model;
  double tolerance = 1e-5;
};

void PrintTo(const RuleCase& rule, std::ostream* out) { *out << rule.name; }

double MeanSquare(const Doubles& g) {
  double sum = 0;
  for (const double x : g) sum += x * x;
  return sum / static_cast<double>(g.size());
}

Model MomentumModel(size_t n, double momentum, bool nesterov) {
  return [=, v = Doubles(n)](Doubles& w, const Doubles& g, int) mutable {
    for (size_t i = 0; i < n; ++i) {
      v[i] = momentum * v[i] + g[i];
      w[i] -= kLr * (nesterov ? g[i] + momentum * v[i] : v[i]);
    }
  };
}

// Of LARS: the norms in doubles, by the paper's letter.
Model LarsModel(size_t n, double momentum, double coefficient, double decay,
                double epsilon) {
  return [=, v = Doubles(n)](Doubles& w, const Doubles& g, int) mutable {
    double w_norm = 0, g_norm = 0;
    for (size_t i = 0; i < n; ++i) {
      w_norm += w[i] * w[i];
      g_norm += g[i] * g[i];
    }
    w_norm = std::sqrt(w_norm);
    g_norm = std::sqrt(g_norm);
    const bool scaled = decay > 0 && w_norm > 0 && g_norm > 0;
    const double rate = scaled ? kLr * coefficient * w_norm /
                                     (g_norm + decay * w_norm + epsilon)
                               : kLr;
    for (size_t i = 0; i < n; ++i) {
      v[i] = momentum * v[i] + rate * (g[i] + decay * w[i]);
      w[i] -= v[i];
    }
  };
}

Model AdagradModel(size_t n, double initial, double epsilon) {
  return [=, sum = Doubles(n, initial)](Doubles& w, const Doubles& g,
                                        int) mutable {
    for (size_t i = 0; i < n; ++i) {
      sum[i] += g[i] * g[i];
      w[i] -= kLr * g[i] / (std::sqrt(sum[i]) + epsilon);
    }
  };
}

Model SharedAdagradModel(double initial, double epsilon) {
  return [=, sum = initial](Doubles& w, const Doubles& g, int) mutable {
    sum += MeanSquare(g);
    for (size_t i = 0; i < w.size(); ++i) {
      w[i] -= kLr * g[i] / (std::sqrt(sum) + epsilon);
    }
  };
}

Model AdamModel(size_t n, double beta1, double beta2, double weight_decay) {
  return [=, m = Doubles(n), v = Doubles(n)](Doubles& w, const Doubles& g,
                                             int t) mutable {
    for (size_t i = 0; i < n; ++i) {
      m[i] = beta1 * m[i] + (1 - beta1) * g[i];
      v[i] = beta2 * v[i] + (1 - beta2) * g[i] * g[i];
      w[i] -= kLr * weight_decay * w[i];
      w[i] -= kLr * std::sqrt(1 - std::pow(beta2, t)) /
              (1 - std::pow(beta1, t)) * m[i] / (std::sqrt(v[i]) + 1e-8);
    }
  };
}

Model SharedAdamModel(size_t n) {
  const double beta1 = 0.9f, beta2 = 0.999f;
  return [=, m = Doubles(n), v = 0.0](Doubles& w, const Doubles& g,
                                      int t) mutable {
    v = beta2 * v + (1 - beta2) * MeanSquare(g);
    for (size_t i = 0; i < n; ++i) {
      m[i] = beta1 * m[i] + (1 - beta1) * g[i];
      w[i] -= kLr * std::sqrt(1 - std::pow(beta2, t)) /
              (1 - std::pow(beta1, t)) * m[i] / (std::sqrt(v) + 1e-8);
    }
  };
}

Model PaddleAdagradModel(double g0) {
  return [=, g2sum = 0.0](Doubles& w, const Doubles& g, int) mutable {
    for (size_t i = 0; i < w.size(); ++i) {
      w[i] -= kLr * g[i] * std::sqrt(g0 / (g0 + g2sum));
    }
    g2sum += MeanSquare(g);
  };
}

Model PaddleStdAdagradModel(size_t n, double g0) {
  return [=, g2sum = Doubles(n)](Doubles& w, const Doubles& g, int) mutable {
    for (size_t i = 0; i < n; ++i) {
      w[i] -= kLr * g[i] * std::sqrt(g0 / (g0 + g2sum[i]));
      g2sum[i] += g[i] * g[i];
    }
  };
}

Model PaddleSharedAdamModel() {
  const double beta1 = 0.9f, beta2 = 0.999f;
  return [=, m = 0.0, v = 0.0](Doubles& w, const Doubles& g, int t) mutable {
    Doubles m_of(w.size()), v_of(w.size());
    double mean_m = 0, mean_v = 0;
    for (size_t i = 0; i < w.size(); ++i) {
      m_of[i] = beta1 * m + (1 - beta1) * g[i];
      v_of[i] = beta2 * v + (1 - beta2) * g[i] * g[i];
      w[i] -= kLr * std::sqrt(1 - std::pow(beta2, t)) /
              (1 - std::pow(beta1, t)) * m_of[i] / (std::sqrt(v_of[i]) + 1e-8);
      mean_m += m_of[i] / static_cast<double>(w.size());
      mean_v += v_of[i] / static_cast<double>(w.size());
    }
    m = mean_m;
    v = mean_v;
  };
}

size_t None(size_t) { return 0; }
size_t One(size_t) { return 1; }
size_t Each(size_t n) { return n; }
size_t AdamState(size_t n) { return 2 * n + 2; }

std::vector<RuleCase> SgdCases() {
  const auto sgd = [](size_t) {
    return [](Doubles& w, const Doubles& g, int) {
      for (size_t i = 0; i < w.size(); ++i) w[i] -= kLr * g[i];
    };
  };
  return {
      {"sgd", [](v1::OptimizerConfig* o) { o->mutable_sgd(); }, None, sgd},
      {"paddle_naive",
       [](v1::OptimizerConfig* o) { o->mutable_paddle_naive(); }, None, sgd},
      {"momentum", [](v1::OptimizerConfig* o) { o->mutable_momentum(); }, Each,
       [](size_t n) { return MomentumModel(n, 0.9f, false); }},
      {"nesterov",
       [](v1::OptimizerConfig* o) {
         o->mutable_momentum()->set_momentum(0.5f);
         o->mutable_momentum()->set_nesterov(true);
       },
       Each, [](size_t n) { return MomentumModel(n, 0.5, true); }},
      {"momentum of 0",
       [](v1::OptimizerConfig* o) { o->mutable_momentum()->set_momentum(0); },
       Each, sgd},
      {"lars", [](v1::OptimizerConfig* o) { o->mutable_lars(); }, Each,
       [](size_t n) { return LarsModel(n, 0.9f, 0.001f, 0.0005f, 0); }},
      {"lars with all options",
       [](v1::OptimizerConfig* o) {
         o->mutable_lars()->set_momentum(0.5f);
         o->mutable_lars()->set_coefficient(0.25f);
         o->mutable_lars()->set_weight_decay(0.125f);
         o->mutable_lars()->set_epsilon(0.01f);
       },
       Each, [](size_t n) { return LarsModel(n, 0.5, 0.25, 0.125, 0.01f); }},
      {"lars without decay",
       [](v1::OptimizerConfig* o) { o->mutable_lars()->set_weight_decay(0); },
       Each, [](size_t n) { return MomentumModel(n, 0.9f, false); }},
  };
}

std::vector<RuleCase> AdagradCases() {
  return {
      {"adagrad", [](v1::OptimizerConfig* o) { o->mutable_adagrad(); }, Each,
       [](size_t n) { return AdagradModel(n, 0, 1e-10); }},
      {"adagrad with all options",
       [](v1::OptimizerConfig* o) {
         o->mutable_adagrad()->set_initial_accumulator(0.1f);
         o->mutable_adagrad()->set_epsilon(1e-3f);
       },
       Each, [](size_t n) { return AdagradModel(n, 0.1f, 1e-3f); }},
      {"shared_adagrad",
       [](v1::OptimizerConfig* o) { o->mutable_shared_adagrad(); }, One,
       [](size_t) { return SharedAdagradModel(0, 1e-10); }},
      {"shared_adagrad with all options",
       [](v1::OptimizerConfig* o) {
         o->mutable_shared_adagrad()->set_initial_accumulator(0.1f);
         o->mutable_shared_adagrad()->set_epsilon(1e-3f);
       },
       One, [](size_t) { return SharedAdagradModel(0.1f, 1e-3f); }},
      {"paddle_adagrad",
       [](v1::OptimizerConfig* o) { o->mutable_paddle_adagrad(); }, One,
       [](size_t) { return PaddleAdagradModel(3); }},
      {"paddle_std_adagrad",
       [](v1::OptimizerConfig* o) {
         o->mutable_paddle_std_adagrad()->set_initial_g2sum(0.5f);
       },
       Each, [](size_t n) { return PaddleStdAdagradModel(n, 0.5); }},
      {"paddle_adagrad_v2",
       [](v1::OptimizerConfig* o) { o->mutable_paddle_adagrad_v2(); }, One,
       [](size_t) { return SharedAdagradModel(0, 1e-8); }},
  };
}

std::vector<RuleCase> AdamCases() {
  const auto moments = [](size_t n) { return 2 * n; };
  const auto adam = [](size_t n) { return AdamModel(n, 0.9f, 0.999f, 0); };
  return {
      {"adam", [](v1::OptimizerConfig* o) { o->mutable_adam(); }, AdamState,
       adam, 1e-4},
      {"adam with short memory",
       [](v1::OptimizerConfig* o) {
         o->mutable_adam()->set_beta1(0.5f);
         o->mutable_adam()->set_beta2(0.75f);
       },
       AdamState, [](size_t n) { return AdamModel(n, 0.5, 0.75, 0); }, 1e-4},
      // Where every step brings a gradient, age of row and table are the same.
      {"lazy_adam", [](v1::OptimizerConfig* o) { o->mutable_lazy_adam(); },
       moments, adam, 1e-4},
      {"shared_adam", [](v1::OptimizerConfig* o) { o->mutable_shared_adam(); },
       [](size_t n) { return n + 3; }, SharedAdamModel, 1e-4},
      {"adamw",
       [](v1::OptimizerConfig* o) {
         o->mutable_adamw()->set_weight_decay(0.25f);
       },
       AdamState, [](size_t n) { return AdamModel(n, 0.9f, 0.999f, 0.25); },
       1e-4},
      {"adamw with a decay of 0",
       [](v1::OptimizerConfig* o) { o->mutable_adamw()->set_weight_decay(0); },
       AdamState, adam, 1e-4},
      {"adam with betas of 0",
       [](v1::OptimizerConfig* o) {
         o->mutable_adam()->set_beta1(0);
         o->mutable_adam()->set_beta2(0);
       },
       AdamState, [](size_t n) { return AdamModel(n, 0, 0, 0); }, 1e-4},
      {"adamw by default", [](v1::OptimizerConfig* o) { o->mutable_adamw(); },
       AdamState, [](size_t n) { return AdamModel(n, 0.9f, 0.999f, 0.01f); },
       1e-4},
      // The powers are floats near 1 here.
      {"paddle_adam", [](v1::OptimizerConfig* o) { o->mutable_paddle_adam(); },
       AdamState, adam, 5e-4},
      {"paddle_shared_adam",
       [](v1::OptimizerConfig* o) { o->mutable_paddle_shared_adam(); },
       [](size_t) { return size_t{4}; },
       [](size_t) { return PaddleSharedAdamModel(); }, 5e-4},
  };
}

std::vector<RuleCase> AllCases() {
  std::vector<RuleCase> cases = SgdCases();
  for (const RuleCase& rule : AdagradCases()) cases.push_back(rule);
  for (const RuleCase& rule : AdamCases()) cases.push_back(rule);
  return cases;
}

class RulesTest : public testing::TestWithParam<RuleCase> {};

TEST_P(RulesTest, FollowsItsFormulaInDoubles) {
  const RuleCase& rule_case = GetParam();
  v1::OptimizerConfig config;
  config.set_learning_rate(kRate);
  rule_case.set(&config);
  const UpdateRule rule = RuleOf(config);
  for (const size_t n : {1, 3, 4, 10, 16, 33, 1024}) {
    SCOPED_TRACE(testing::Message() << "seed " << kSeed << ", n " << n);
    EXPECT_EQ(rule.StateSize(n), rule_case.state_size(n));
    RandomSequence random(kSeed + n);
    Weights weights(rule, RandomWeights(&random, n));
    Doubles expected(weights.w.begin(), weights.w.end());
    const Model model = rule_case.model(n);
    for (int t = 1; t <= 100; ++t) {
      const std::vector<float> g = RandomGradients(&random, n);
      weights.Apply(rule, t, g);
      model(expected, Doubles(g.begin(), g.end()), t);
      for (size_t i = 0; i < n; ++i) {
        ASSERT_NEAR(weights.w[i], expected[i],
                    rule_case.tolerance * (1 + std::abs(expected[i])))
            << "weight " << i << " after update " << t;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rules, RulesTest, testing::ValuesIn(AllCases()),
                         [](const testing::TestParamInfo<RuleCase>& info) {
                           std::string name = info.param.name;
                           for (char& c : name) c = c == ' ' ? '_' : c;
                           return name;
                         });

TEST(RulesTest, FirstAdagradStepWithoutAccumulatorIsTheLearningRate) {
  v1::OptimizerConfig config;
  config.set_learning_rate(0.01f);
  config.mutable_adagrad();
  const UpdateRule rule = RuleOf(config);
  Weights weights(rule, {0});
  weights.Apply(rule, /*step=*/1, {1e-4f});
  // Up to epsilon, a millionth of the gradient.
  EXPECT_NEAR(weights.w[0], -0.01f, 1e-7f);
}

TEST(RulesTest, FirstStepOfALateRowIsLongerUnderLazyAdamThanUnderAdam) {
  v1::OptimizerConfig config;
  config.set_learning_rate(0.01f);
  config.mutable_adam();
  const UpdateRule adam = RuleOf(config);
  config.mutable_lazy_adam();
  const UpdateRule lazy = RuleOf(config);
  Weights own_age(adam, {0}), table_age(lazy, {0});
  own_age.Apply(adam, /*step=*/1'000'000, {0.5f});
  table_age.Apply(lazy, /*step=*/1'000'000, {0.5f});
  EXPECT_NEAR(own_age.w[0], -0.01, 1e-6);
  EXPECT_NEAR(table_age.w[0], -0.01 * 0.1 / std::sqrt(0.001), 1e-5);
}

TEST(RulesTest, AStepOfLarsIsAShareOfTheWeightsNormWhateverTheGradients) {
  v1::OptimizerConfig config;
  config.set_learning_rate(1);
  config.mutable_lars()->set_coefficient(0.01f);
  config.mutable_lars()->set_weight_decay(1e-9f);
  const UpdateRule rule = RuleOf(config);
  for (const float scale : {1e-6f, 1.0f, 1e6f}) {
    Weights weights(rule, {3, 4});  // norm 5
    weights.Apply(rule, /*step=*/1, {0.6f * scale, 0.8f * scale});
    EXPECT_NEAR(weights.w[0], 3 - 0.05 * 0.6, 1e-5) << scale;
    EXPECT_NEAR(weights.w[1], 4 - 0.05 * 0.8, 1e-5) << scale;
  }
}

TEST(RulesTest, LarsMovesWeightsAtZeroByTheLearningRate) {
  v1::OptimizerConfig config;
  config.set_learning_rate(0.5f);
  config.mutable_lars();
  const UpdateRule rule = RuleOf(config);
  Weights weights(rule, {0, 0});
  weights.Apply(rule, /*step=*/1, {1, -2});
  EXPECT_EQ(weights.w, (std::vector<float>{-0.5f, 1.0f}));
}

TEST(RulesTest, AZeroGradientMovesNoFreshWeightButByDecay) {
  for (const v1::OptimizerConfig& config : OneOfEachRule()) {
    SCOPED_TRACE(config.ShortDebugString());
    const UpdateRule rule = RuleOf(config);
    Weights weights(rule, {0.25f, 0, -0.3f});
    const std::vector<float> before = weights.w;
    for (int t = 1; t <= 3; ++t) weights.Apply(rule, t, {0, 0, 0});
    if (config.has_adamw() || config.has_lars()) {
      EXPECT_LT(weights.w[0], before[0]);
      EXPECT_GT(weights.w[2], before[2]);
    } else {
      EXPECT_EQ(weights.w, before);
    }
  }
}

TEST(RulesTest, ALearningRateOfZeroFreezesTheWeights) {
  RandomSequence random(kSeed);
  for (v1::OptimizerConfig config : OneOfEachRule()) {
    SCOPED_TRACE(config.ShortDebugString());
    config.set_learning_rate(0);
    const UpdateRule rule = RuleOf(config);
    Weights weights(rule, {0.25f, 0, -0.3f});
    const std::vector<float> before = weights.w;
    for (int t = 1; t <= 20; ++t) {
      weights.Apply(rule, t, RandomGradients(&random, 3));
    }
    EXPECT_EQ(weights.w, before);
  }
}

}  // namespace
}  // namespace oarlock::optim
