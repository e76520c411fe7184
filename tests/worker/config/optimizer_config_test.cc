#include "worker/config/optimizer_config.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace oarlock::worker {
namespace {

v1::OptimizerConfig Of(const v1::JobConfig& config, uint32_t num_workers = 1,
                       TableKind kind = TableKind::kSparse) {
  absl::StatusOr<v1::OptimizerConfig> optimizer =
      OptimizerOf(config, num_workers, kind);
  EXPECT_TRUE(optimizer.ok()) << optimizer.status();
  return *optimizer;
}

// The rule that is set in `optimizer`, by its name in the message.
std::string RuleName(const v1::OptimizerConfig& optimizer) {
  const auto* oneof =
      v1::OptimizerConfig::descriptor()->FindOneofByName("rule");
  return optimizer.GetReflection()
      ->GetOneofFieldDescriptor(optimizer, oneof)
      ->name();
}

TEST(OptimizerConfigTest, EveryNameOfTheFlagIsARuleAndEveryRuleAName) {
  const auto* field = v1::JobConfig::descriptor()->FindFieldByName("optimizer");
  const v1::FlagOptions& flag = field->options().GetExtension(v1::flag);
  const auto* oneof =
      v1::OptimizerConfig::descriptor()->FindOneofByName("rule");
  EXPECT_EQ(flag.one_of_size(), oneof->field_count());
  for (const std::string& name : flag.one_of()) {
    v1::JobConfig config;
    config.set_optimizer(name);
    // Servers have no whole parameters.
    const TableKind kind =
        name == "lars" ? TableKind::kReplica : TableKind::kSparse;
    EXPECT_EQ(RuleName(Of(config, 1, kind)), name);
  }
}

TEST(OptimizerConfigTest, DenseTablesGetTheRuleThatSharesNothing) {
  const std::vector<std::pair<std::string, std::string>> rules = {
      {"sgd", "sgd"},
      {"ftrl", "ftrl"},
      {"shared_adagrad", "adagrad"},
      {"shared_adam", "adam"},
      {"paddle_adagrad", "paddle_std_adagrad"},
      {"paddle_adagrad_v2", "adagrad"},
      {"paddle_shared_adam", "paddle_adam"}};
  for (const auto& [name, dense] : rules) {
    v1::JobConfig config;
    config.set_optimizer(name);
    EXPECT_EQ(RuleName(Of(config, 1, TableKind::kDense)), dense);
    EXPECT_EQ(RuleName(Of(config, 1, TableKind::kReplica)), dense);
  }
}

TEST(OptimizerConfigTest, FlagsReachTheRuleTheyAreFor) {
  v1::JobConfig config;
  config.set_learning_rate(.125);
  EXPECT_EQ(Of(config).learning_rate(), .125f);
  config.set_adagrad_initial_accumulator(.5);
  config.set_optimizer("adagrad");
  EXPECT_EQ(Of(config).adagrad().initial_accumulator(), .5f);
  config.set_optimizer("shared_adagrad");
  EXPECT_EQ(Of(config).shared_adagrad().initial_accumulator(), .5f);
  config.set_paddle_initial_g2sum(2);
  config.set_optimizer("paddle_adagrad");
  EXPECT_EQ(Of(config).paddle_adagrad().initial_g2sum(), 2);
  config.set_optimizer("paddle_std_adagrad");
  EXPECT_EQ(Of(config).paddle_std_adagrad().initial_g2sum(), 2);
  config.set_momentum(.75);
  config.set_nesterov(true);
  config.set_optimizer("momentum");
  EXPECT_EQ(Of(config).momentum().momentum(), .75f);
  EXPECT_TRUE(Of(config).momentum().nesterov());
  config.set_weight_decay(.25);
  config.set_optimizer("adamw");
  EXPECT_EQ(Of(config).adamw().weight_decay(), .25f);
  config.set_lars_weight_decay(0);
  config.set_lars_coefficient(.5);
  config.set_optimizer("lars");
  const v1::Lars lars = Of(config, 1, TableKind::kReplica).lars();
  EXPECT_EQ(lars.momentum(), .75f);
  EXPECT_EQ(lars.coefficient(), .5f);
  EXPECT_TRUE(lars.has_weight_decay());
  EXPECT_EQ(lars.weight_decay(), 0);
  config.set_ftrl_beta(.5);
  config.set_l1(2);
  config.set_l2(3);
  config.set_optimizer("ftrl");
  EXPECT_EQ(Of(config).ftrl().beta(), .5f);
  EXPECT_EQ(Of(config).l1(), 2);
  EXPECT_EQ(Of(config).l2(), 3);
}

TEST(OptimizerConfigTest, ABoundIsOnBothSidesAndNoneByDefault) {
  v1::JobConfig config;
  EXPECT_FALSE(Of(config).has_weight_bounds());
  config.set_weight_bound(4);
  EXPECT_EQ(Of(config).weight_bounds().lower(), -4);
  EXPECT_EQ(Of(config).weight_bounds().upper(), 4);
}

TEST(OptimizerConfigTest, ScheduleAndWarmUpCountPushesOfAllWorkers) {
  v1::JobConfig config;
  EXPECT_FALSE(Of(config, 3).has_schedule());
  config.set_warmup_steps(7);
  config.set_schedule_steps(100);
  config.set_schedule_decay_rate(.25);
  config.set_schedule_end_factor(.5);
  config.set_schedule_power(2);
  config.set_learning_rate_schedule("exponential");
  EXPECT_EQ(Of(config, 3).warmup_steps(), 21u);
  EXPECT_EQ(Of(config, 3).schedule().exponential().steps(), 300u);
  EXPECT_EQ(Of(config, 3).schedule().exponential().rate(), .25f);
  config.set_learning_rate_schedule("polynomial");
  EXPECT_EQ(Of(config, 3).schedule().polynomial().steps(), 300u);
  EXPECT_EQ(Of(config, 3).schedule().polynomial().end_factor(), .5f);
  EXPECT_EQ(Of(config, 3).schedule().polynomial().power(), 2);
  config.set_learning_rate_schedule("cosine");
  EXPECT_EQ(Of(config, 3).schedule().cosine().steps(), 300u);
  EXPECT_EQ(Of(config, 3).schedule().cosine().end_factor(), .5f);
  config.set_learning_rate_schedule("piecewise");
  config.set_schedule_pieces("10:1,20:0.5");
  const v1::PiecewiseRate pieces = Of(config, 3).schedule().piecewise();
  ASSERT_EQ(pieces.pieces_size(), 2);
  EXPECT_EQ(pieces.pieces(0).until_step(), 30u);
  EXPECT_EQ(pieces.pieces(1).until_step(), 60u);
  EXPECT_EQ(pieces.pieces(1).factor(), .5f);
  config.set_learning_rate_schedule("step");
  EXPECT_EQ(Of(config, 3).schedule().step().steps(), 300u);
  EXPECT_EQ(Of(config, 3).schedule().step().rate(), .25f);
  const v1::OptimizerConfig replica = Of(config, 3, TableKind::kReplica);
  EXPECT_EQ(replica.schedule().step().steps(), 100u);
  EXPECT_EQ(replica.warmup_steps(), 7u);
  config.set_learning_rate_schedule("piecewise");
  // A round is one push, whatever the number of workers.
  config.set_mode("sync");
  EXPECT_EQ(Of(config, 3).warmup_steps(), 7u);
  EXPECT_EQ(Of(config, 3).schedule().piecewise().pieces(1).until_step(), 20u);
}

TEST(OptimizerConfigTest, LarsIsRefusedWhereServersHoldTheParameters) {
  v1::JobConfig config;
  config.set_optimizer("lars");
  for (const TableKind kind : {TableKind::kSparse, TableKind::kDense}) {
    const absl::Status status = OptimizerOf(config, 1, kind).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find("--optimizer is lars"), std::string::npos)
        << status;
  }
}

TEST(OptimizerConfigTest, WhatContradictsItselfIsRefusedByName) {
  const auto refused = [](const v1::JobConfig& config,
                          const std::string& name) {
    const absl::Status status =
        OptimizerOf(config, 1, TableKind::kSparse).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_NE(status.message().find(name), std::string::npos) << status;
    EXPECT_EQ(status.message().find('\n'), std::string::npos) << status;
  };
  v1::JobConfig config;
  config.set_learning_rate_schedule("cosine");
  refused(config, "--schedule_steps");
  config.set_learning_rate_schedule("piecewise");
  refused(config, "--schedule_pieces");
  for (const char* pieces : {"10", "10:", ":1", "10:1,", "-1:1", "10:x",
                             "99999999999999999:1", "0:1", "10:-1", "10:nan"}) {
    config.set_schedule_pieces(pieces);
    refused(config, "--schedule_pieces");
  }
  for (const char* pieces : {"20:1,10:1", "20:1,20:.5"}) {
    config.set_schedule_pieces(pieces);
    refused(config, "after a piece up to step 20; legal are steps that grow");
  }
  config.set_learning_rate_schedule("constant");
  config.set_optimizer("paddle_naive");
  config.set_l1(1);
  refused(config, "paddle_");
}

}  // namespace
}  // namespace oarlock::worker
