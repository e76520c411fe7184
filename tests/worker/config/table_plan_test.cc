#include "worker/config/table_plan.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"

namespace oarlock::worker {
namespace {

std::unique_ptr<models::Model> MakeModel(const std::string& name) {
  models::ModelOptions options;
  options.embedding_size = 6;
  options.init_range = .25f;
  absl::StatusOr<std::unique_ptr<models::Model>> model =
      models::NewModel(name, options);
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

TablePlan PlanOf(const std::string& model, const v1::JobConfig& config,
                 uint32_t num_workers = 1) {
  return *PlanTables(MakeModel(model)->spec(), config, num_workers);
}

TEST(TablePlanTest, TablesHaveIdsAndNamesOfTheirOwn) {
  for (const char* name : {"lr", "ctr_dnn", "deepfm"}) {
    SCOPED_TRACE(name);
    const std::unique_ptr<models::Model> model = MakeModel(name);
    const TablePlan plan = *PlanTables(model->spec(), v1::JobConfig(), 1);
    std::set<uint32_t> ids;
    std::set<std::string> names;
    for (const v1::TableConfig& table : plan.tables) {
      EXPECT_GE(table.id(), 1u);
      ids.insert(table.id());
      names.insert(table.name());
    }
    EXPECT_EQ(ids.size(), plan.tables.size());
    EXPECT_EQ(names.size(), plan.tables.size());
    ASSERT_EQ(plan.sparse_tables.size(), model->spec().sparse_inputs.size());
    for (size_t i = 0; i < plan.sparse_tables.size(); ++i) {
      const models::SparseInputSpec& input = model->spec().sparse_inputs[i];
      EXPECT_EQ(TableId(plan.tables[i].id()), plan.sparse_tables[i]);
      EXPECT_EQ(plan.tables[i].name(), input.table);
      EXPECT_EQ(plan.tables[i].sparse().dim(), input.row_dim);
    }
    EXPECT_EQ(TableId(plan.tables.back().id()), plan.dense_table);
  }
}

TEST(TablePlanTest, DenseParametersCoverTheirTable) {
  for (const char* name : {"lr", "ctr_dnn", "deepfm"}) {
    SCOPED_TRACE(name);
    const std::unique_ptr<models::Model> model = MakeModel(name);
    const TablePlan plan = *PlanTables(model->spec(), v1::JobConfig(), 1);
    const v1::DenseTableConfig& dense = plan.tables.back().dense();
    EXPECT_EQ(dense.size(), model->spec().num_parameters);
    uint64_t next = 0;
    for (const v1::DenseParameter& parameter : dense.parameters()) {
      EXPECT_EQ(parameter.offset(), next) << parameter.name();
      uint64_t size = 1;
      for (uint64_t extent : parameter.shape()) size *= extent;
      next += size;
    }
    EXPECT_EQ(next, dense.size());
  }
}

TEST(TablePlanTest, EmbeddingsStartInTheRangeThatWasAskedFor) {
  const TablePlan plan = PlanOf("ctr_dnn", v1::JobConfig());
  EXPECT_EQ(plan.tables[0].sparse().initializer().uniform_range(), .25f);
}

TEST(TablePlanTest, ContradictingOptionsOfTheOptimizerMakeNoPlan) {
  v1::JobConfig config;
  config.set_optimizer("adamw");
  config.set_l2(.5);
  const absl::Status status =
      PlanTables(MakeModel("lr")->spec(), config, 1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
}

TEST(TablePlanTest, DenseTablesGetTheRuleThatSharesNothing) {
  v1::JobConfig config;
  config.set_optimizer("shared_adagrad");
  const TablePlan plan = PlanOf("deepfm", config);
  EXPECT_TRUE(plan.tables.front().optimizer().has_shared_adagrad());
  EXPECT_TRUE(plan.tables.back().optimizer().has_adagrad());
}

TEST(TablePlanTest, ModeAndLossDecideHowPushesCombine) {
  v1::JobConfig config;
  for (const char* mode : {"async", "sync"}) {
    for (const char* loss : {"mean", "sum"}) {
      config.set_mode(mode);
      config.set_loss(loss);
      for (const v1::TableConfig& table : PlanOf("lr", config).tables) {
        EXPECT_EQ(table.mode(),
                  std::string(mode) == "sync" ? v1::SYNC : v1::ASYNC);
        EXPECT_EQ(table.reduction(),
                  std::string(loss) == "sum" ? v1::SUM : v1::MEAN);
      }
    }
  }
}

TEST(TablePlanTest, ARateForStaleGradientsTakesThePlaceOfTheQuorum) {
  v1::JobConfig config;
  const auto model = MakeModel("ctr_dnn");
  const auto dense_of = [&]() -> absl::StatusOr<v1::DenseTableConfig> {
    const absl::StatusOr<TablePlan> plan =
        PlanTables(model->spec(), config, /*num_workers=*/8);
    if (!plan.ok()) return plan.status();
    return plan->tables.back().dense();
  };
  EXPECT_GT(dense_of()->quorum(), 0);
  EXPECT_EQ(dense_of()->staleness_power(), 0);
  config.set_dense_staleness_power(.5);
  EXPECT_EQ(dense_of()->quorum(), 0);
  EXPECT_EQ(dense_of()->staleness_power(), .5f);
  config.set_dense_quorum(.5);
  EXPECT_EQ(dense_of().status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(dense_of().status().message(),
              testing::HasSubstr("--dense_quorum 0.5"));
  config.clear_dense_quorum();
  config.set_optimizer("ftrl");
  EXPECT_THAT(dense_of().status().message(),
              testing::HasSubstr("--optimizer ftrl"));
}

TEST(TablePlanTest, StatisticsAreForThoseWhoAskAndNoWeightOfADenseTable) {
  v1::JobConfig config;
  EXPECT_EQ(PlanOf("lr", config).tables[0].sparse().accessor(), v1::PLAIN);
  config.set_accessor("ctr");
  config.set_click_coefficient(2);
  config.set_statistics_decay_rate(.5);
  config.set_statistics_decay_period_ticks(7);
  config.set_admission("show_click");
  config.set_admission_score(3);
  config.set_evict_score_min(.25);
  const TablePlan plan = PlanOf("deepfm", config);
  for (const v1::TableConfig& table : plan.tables) {
    if (!table.has_sparse()) continue;
    const v1::SparseTableConfig& sparse = table.sparse();
    EXPECT_EQ(sparse.accessor(), v1::CTR);
    EXPECT_EQ(sparse.ctr().non_click_coefficient(), .1f);
    EXPECT_EQ(sparse.ctr().click_coefficient(), 2);
    EXPECT_EQ(sparse.ctr().decay_rate(), .5f);
    EXPECT_EQ(sparse.ctr().decay_period_ticks(), 7u);
    EXPECT_FALSE(sparse.ctr().divide_by_show());
    EXPECT_EQ(sparse.admission().show_click().score(), 3);
    EXPECT_EQ(sparse.eviction().score_min(), .25f);
  }
}

TEST(TablePlanTest, FlagsThatGoByStatisticsWantThem) {
  const auto refusal = [](auto change) {
    v1::JobConfig config;
    change(&config);
    const absl::Status status =
        PlanTables(MakeModel("lr")->spec(), config, 1).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    config.set_accessor("ctr");
    EXPECT_TRUE(PlanTables(MakeModel("lr")->spec(), config, 1).ok());
    return std::string(status.message());
  };
  EXPECT_EQ(refusal([](auto* c) { c->set_admission("show_click"); }),
            "--admission show_click goes by shows and clicks, which --accessor "
            "plain does not keep; legal is with --accessor ctr");
  refusal([](auto* c) { c->set_evict_score_min(1); });
  refusal([](auto* c) { c->set_statistics_decay_rate(.9); });
  refusal([](auto* c) { c->set_divide_by_show(true); });
}

TEST(TablePlanTest, TheMemoryBudgetIsThatOfEverySparseTable) {
  v1::JobConfig config;
  EXPECT_EQ(PlanOf("lr", config).tables[0].sparse().memory_budget_bytes(), 0u);
  config.set_memory_budget_mb(3);
  for (const v1::TableConfig& table : PlanOf("deepfm", config).tables) {
    EXPECT_EQ(table.sparse().memory_budget_bytes(),
              table.has_sparse() ? 3u << 20 : 0u);
  }
}

TEST(TablePlanTest, WhatNormsLearnIsAddedUpAndDecaysOnceInARound) {
  v1::JobConfig config;
  config.set_accessor("ctr");
  config.set_admission("count");
  config.set_rows_max(100000);
  config.set_memory_budget_mb(3);
  config.set_l2(.1);
  models::ModelOptions options;
  options.dense_norm = models::DenseNorm::kData;
  const auto model = models::NewModel("ctr_dnn", options);
  ASSERT_TRUE(model.ok()) << model.status();
  const TablePlan plan = *PlanTables((*model)->spec(), config, 2);
  ASSERT_EQ(plan.sparse_tables.size(), 2u);
  const v1::TableConfig& table = plan.tables[1];
  EXPECT_EQ(table.name(), "statistics");
  EXPECT_EQ(table.reduction(), v1::SUM);
  EXPECT_EQ(table.optimizer().learning_rate(), 1);
  EXPECT_TRUE(table.optimizer().has_sgd());
  EXPECT_EQ(table.optimizer().warmup_steps(), 0u);
  EXPECT_FLOAT_EQ(table.optimizer().l2(), 1 - .999999f) << "not the job's";
  EXPECT_EQ(table.sparse().accessor(), v1::PLAIN);
  EXPECT_FALSE(table.sparse().has_admission());
  EXPECT_FALSE(table.sparse().has_eviction());
  EXPECT_EQ(table.sparse().memory_budget_bytes(), 0u);
  EXPECT_EQ(plan.tables[0].reduction(), v1::MEAN);
}

TEST(TablePlanTest, GeoWorkersTogetherTakeAtMostAllThatNormsHaveLearned) {
  models::ModelOptions options;
  options.dense_norm = models::DenseNorm::kBatch;
  const auto model = models::NewModel("ctr_dnn", options);
  ASSERT_TRUE(model.ok()) << model.status();
  for (const int geo_steps : {1, 10, 1000}) {
    for (const uint32_t workers : {1u, 2u, 4u, 100u}) {
      v1::JobConfig config;
      config.set_mode("geo");
      config.set_geo_steps(geo_steps);
      const TablePlan plan = *PlanTables((*model)->spec(), config, workers);
      EXPECT_EQ(plan.tables[1].optimizer().l2(), 0) << "servers subtract";
      const double share = plan.local_optimizers[1].l2();
      const double all = workers * (1 - std::pow(1 - share, geo_steps));
      EXPECT_LE(all, 1 + 1e-4) << workers << " workers, " << geo_steps;
      EXPECT_LE(share * workers, .01 + 1e-6);
      if (workers * geo_steps < 50) {
        EXPECT_NEAR(share * workers, .01, 1e-6);
      }
    }
  }
}

TEST(TablePlanTest, WarmUpCountsPushesOfAllWorkersAndRoundsOnce) {
  v1::JobConfig config;
  config.set_warmup_steps(7);
  EXPECT_EQ(PlanOf("lr", config, 3).tables[0].optimizer().warmup_steps(), 21u);
  config.set_mode("sync");
  EXPECT_EQ(PlanOf("lr", config, 3).tables[0].optimizer().warmup_steps(), 7u);
}

TEST(TablePlanTest, SeedDrivesAllTablesAndNothingElseChangesWithIt) {
  v1::JobConfig config;
  config.set_seed(5);
  TablePlan a = PlanOf("deepfm", config);
  TablePlan same = PlanOf("deepfm", config);
  config.set_seed(6);
  TablePlan other = PlanOf("deepfm", config);
  ASSERT_EQ(a.tables.size(), other.tables.size());
  using google::protobuf::util::MessageDifferencer;
  for (size_t i = 0; i < a.tables.size(); ++i) {
    EXPECT_TRUE(MessageDifferencer::Equals(a.tables[i], same.tables[i]));
    EXPECT_EQ(a.tables[i].seed(), 5u);
    EXPECT_EQ(other.tables[i].seed(), 6u);
    other.tables[i].set_seed(5);
    EXPECT_TRUE(MessageDifferencer::Equals(a.tables[i], other.tables[i]));
  }
}

}  // namespace
}  // namespace oarlock::worker
