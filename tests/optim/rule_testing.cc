#include "tests/optim/rule_testing.h"

namespace oarlock::optim {

std::vector<v1::OptimizerConfig> OneOfEachRule() {
  std::vector<v1::OptimizerConfig> configs;
  const auto add = [&configs]() -> v1::OptimizerConfig& {
    configs.emplace_back().set_learning_rate(0.05f);
    return configs.back();
  };
  const auto set_betas = [](auto* adam) {
    adam->set_beta1(0.8f);
    adam->set_beta2(0.95f);
    adam->set_epsilon(1e-6f);
  };
  add().mutable_sgd();
  add().mutable_momentum()->set_momentum(0.7f);
  v1::Momentum* nesterov = add().mutable_momentum();
  nesterov->set_momentum(0.7f);
  nesterov->set_nesterov(true);
  add().mutable_adagrad()->set_initial_accumulator(0.1f);
  add().mutable_shared_adagrad()->set_initial_accumulator(0.1f);
  set_betas(add().mutable_adam());
  set_betas(add().mutable_lazy_adam());
  set_betas(add().mutable_shared_adam());
  v1::Adamw* adamw = add().mutable_adamw();
  set_betas(adamw);
  adamw->set_weight_decay(0.1f);
  add().mutable_ftrl()->set_beta(0.5f);
  v1::OptimizerConfig& ftrl = add();
  ftrl.mutable_ftrl()->set_beta(0.5f);
  ftrl.set_l1(0.3f);
  ftrl.set_l2(0.2f);
  add().mutable_paddle_naive();
  add().mutable_paddle_adagrad()->set_initial_g2sum(2);
  add().mutable_paddle_std_adagrad()->set_initial_g2sum(2);
  add().mutable_paddle_adagrad_v2();
  set_betas(add().mutable_paddle_adam());
  set_betas(add().mutable_paddle_shared_adam());
  v1::Lars* lars = add().mutable_lars();
  lars->set_momentum(0.7f);
  lars->set_coefficient(0.5f);
  lars->set_weight_decay(0.1f);
  lars->set_epsilon(1e-3f);
  return configs;
}

}  // namespace oarlock::optim
