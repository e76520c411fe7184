#include "worker/config/table_plan.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/config/optimizer_config.h"
#include "worker/config/training_mode.h"

namespace oarlock::worker {
namespace {

v1::Initializer ToProto(const nn::ParameterInit& init) {
  v1::Initializer proto;
  switch (init.kind) {
    case nn::ParameterInit::Kind::kConstant:
      proto.set_constant(init.value);
      break;
    case nn::ParameterInit::Kind::kUniform:
      proto.set_uniform_range(init.value);
      break;
    case nn::ParameterInit::Kind::kNormal:
      proto.set_normal_stddev(init.value);
      break;
  }
  return proto;
}

v1::UpdateMode UpdateModeOf(TrainingMode mode) {
  switch (mode) {
    case TrainingMode::kSync:
      return v1::SYNC;
    case TrainingMode::kGeo:
      return v1::GEO;
    default:
      return v1::ASYNC;
  }
}

absl::StatusOr<v1::TableConfig> CommonPart(const v1::JobConfig& config,
                                           uint32_t num_workers,
                                           TableKind kind) {
  v1::TableConfig table;
  table.set_mode(UpdateModeOf(ModeOf(config)));
  table.set_reduction(config.loss() == "sum" ? v1::SUM : v1::MEAN);
  table.set_seed(config.seed());
  table.set_allow_nonfinite(config.allow_nonfinite());
  OARLOCK_ASSIGN_OR_RETURN(*table.mutable_optimizer(),
                           OptimizerOf(config, num_workers, kind));
  return table;
}

// InvalidArgument when a flag speaks of statistics that no row keeps.
absl::Status CheckAccessor(const v1::JobConfig& config) {
  if (config.accessor() == "ctr") return absl::OkStatus();
  const char* const flag =
      config.admission() == "show_click"   ? "--admission show_click"
      : config.evict_score_min() > 0       ? "--evict_score_min"
      : config.statistics_decay_rate() > 0 ? "--statistics_decay_rate"
      : config.divide_by_show()            ? "--divide_by_show"
                                           : nullptr;
  if (flag == nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      flag, " goes by shows and clicks, which --accessor ", config.accessor(),
      " does not keep; legal is with --accessor ctr"));
}

// Workers apply the table's rule from now on; the table subtracts.
void MoveRuleToWorkers(TablePlan* plan) {
  for (v1::TableConfig& table : plan->tables) {
    plan->local_optimizers.push_back(table.optimizer());
    v1::OptimizerConfig& subtract = *table.mutable_optimizer();
    subtract.Clear();
    subtract.set_learning_rate(1);
    subtract.mutable_sgd();
  }
}

// The share of its sums that a worker's step takes away, where `rate` is that
// of a step of all workers. All workers take from what there was at the last
// exchange: together, in `geo_steps` steps, at most all of it. (More would
// swing, and grow from twice as much on.)
float GeoDecay(float rate, uint32_t num_workers, int geo_steps) {
  if (num_workers == 1) return rate;
  const double workers = num_workers;
  const double most = 1 - std::pow(1 - 1 / workers, 1.0 / geo_steps);
  return static_cast<float>(std::min(rate / workers, most));
}

void SetAccessor(const v1::JobConfig& config, v1::SparseTableConfig* sparse) {
  if (config.accessor() != "ctr") {
    sparse->set_accessor(v1::PLAIN);
    return;
  }
  sparse->set_accessor(v1::CTR);
  v1::CtrOptions* ctr = sparse->mutable_ctr();
  ctr->set_non_click_coefficient(
      static_cast<float>(config.non_click_coefficient()));
  ctr->set_click_coefficient(static_cast<float>(config.click_coefficient()));
  ctr->set_decay_rate(static_cast<float>(config.statistics_decay_rate()));
  ctr->set_decay_period_ticks(config.statistics_decay_period_ticks());
  ctr->set_divide_by_show(config.divide_by_show());
}

// Which keys get a row, which rows go, and how much memory there is for them.
void SetRowLimits(const v1::JobConfig& config, v1::SparseTableConfig* sparse) {
  if (config.admission() == "count") {
    sparse->mutable_admission()->mutable_count()->set_pushes(
        config.admission_count());
  } else if (config.admission() == "probability") {
    sparse->mutable_admission()->mutable_probability()->set_probability(
        static_cast<float>(config.admission_probability()));
  } else if (config.admission() == "show_click") {
    sparse->mutable_admission()->mutable_show_click()->set_score(
        static_cast<float>(config.admission_score()));
  }
  sparse->set_memory_budget_bytes(
      static_cast<uint64_t>(config.memory_budget_mb()) << 20);
  if (config.evict_idle_ticks() == 0 && config.rows_max() == 0 &&
      config.evict_score_min() == 0) {
    return;
  }
  v1::EvictionConfig* eviction = sparse->mutable_eviction();
  eviction->set_idle_ticks(config.evict_idle_ticks());
  eviction->set_rows_max(config.rows_max());
  // An epoch is a long time.
  eviction->set_period_ticks(config.tick_per_epoch() &&
                                     !config.has_evict_period_ticks()
                                 ? 1
                                 : config.evict_period_ticks());
  if (config.evict_score_min() > 0) {
    eviction->set_score_min(static_cast<float>(config.evict_score_min()));
  }
}

// Threads of a worker that push by themselves.
uint32_t PushingThreads(const v1::JobConfig& config) {
  return ModeOf(config) == TrainingMode::kHalfAsync ? 1 : config.thread_num();
}

// Dense pushes that a worker can have under way: the most that a quorum may
// wait for.
uint32_t DensePushesOf(const v1::JobConfig& config) {
  return std::min(PushingThreads(config),
                  static_cast<uint32_t>(config.max_unacknowledged_pushes()));
}

// InvalidArgument when there are two answers to stale dense gradients, or one
// that the update rule cannot give. Servers refuse ftrl as well, whoever makes
// the table (StalenessRate::Create); here a user reads of flags, before any
// process has begun.
absl::Status CheckStalenessPower(const v1::JobConfig& config) {
  if (config.dense_staleness_power() == 0) return absl::OkStatus();
  if (config.dense_quorum() > 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--dense_staleness_power is ", config.dense_staleness_power(),
        " and --dense_quorum ", config.dense_quorum(),
        "; legal is one of the two: gradients that wait for a quorum make one "
        "update; leave the other out"));
  }
  if (config.optimizer() != "ftrl") return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--dense_staleness_power is ", config.dense_staleness_power(),
      " with --optimizer ftrl, whose weights follow from sums of all gradients "
      "at one rate; leave it out, or choose another --optimizer"));
}

// See --dense_quorum.
float QuorumOf(const v1::JobConfig& config, uint32_t num_workers) {
  constexpr uint32_t kThreadsWithout = 4;
  constexpr float kShare = 0.75f;
  const TrainingMode mode = ModeOf(config);
  if (UpdateModeOf(mode) != v1::ASYNC) return 0;
  if (config.dense_quorum() >= 0) {
    return static_cast<float>(config.dense_quorum());
  }
  if (config.dense_staleness_power() > 0) return 0;
  // With ssp the bound limits staleness.
  return mode != TrainingMode::kSsp &&
                 num_workers * PushingThreads(config) > kThreadsWithout
             ? kShare
             : 0;
}

// A table of what norms learn: decays once for each update, whatever the number
// of workers whose pushes are added up in it. (w - (g + (1 - decay) w).)
void AddUpWithDecay(float decay, v1::TableConfig* table) {
  table->set_reduction(v1::SUM);
  table->mutable_sparse()->set_accessor(v1::PLAIN);
  v1::OptimizerConfig optimizer;
  optimizer.set_learning_rate(1);
  optimizer.set_l2(1 - decay);
  optimizer.mutable_sgd();
  *table->mutable_optimizer() = optimizer;
}

}  // namespace

v1::TableConfig DenseTableOf(const std::vector<nn::ParameterSpec>& parameters,
                             size_t num_parameters) {
  v1::TableConfig table;
  table.set_name("dense");
  v1::DenseTableConfig* dense = table.mutable_dense();
  dense->set_size(num_parameters);
  dense->set_block_size(kDenseBlockFloats);
  for (const nn::ParameterSpec& parameter : parameters) {
    v1::DenseParameter* proto = dense->add_parameters();
    proto->set_name(parameter.name);
    proto->set_offset(parameter.offset);
    for (size_t extent : parameter.shape) proto->add_shape(extent);
    *proto->mutable_initializer() = ToProto(parameter.init);
  }
  return table;
}

namespace {

// Without what a mode changes in the end.
absl::StatusOr<TablePlan> PlanShapes(const models::ModelSpec& spec,
                                     const v1::JobConfig& config,
                                     uint32_t num_workers) {
  TablePlan plan;
  for (const models::SparseInputSpec& input : spec.sparse_inputs) {
    OARLOCK_ASSIGN_OR_RETURN(
        v1::TableConfig table,
        CommonPart(config, num_workers, TableKind::kSparse));
    table.set_id(static_cast<uint32_t>(plan.tables.size()) + 1);
    table.set_name(input.table);
    v1::SparseTableConfig* sparse = table.mutable_sparse();
    sparse->set_dim(static_cast<uint32_t>(input.row_dim));
    *sparse->mutable_initializer() = ToProto(input.init);
    if (input.is_statistics()) {
      AddUpWithDecay(input.decay, &table);
    } else {
      SetAccessor(config, sparse);
      SetRowLimits(config, sparse);
    }
    plan.sparse_tables.push_back(TableId(table.id()));
    plan.tables.push_back(table);
  }
  if (spec.num_parameters == 0) return plan;
  OARLOCK_ASSIGN_OR_RETURN(v1::TableConfig table,
                           CommonPart(config, num_workers, TableKind::kDense));
  table.set_id(static_cast<uint32_t>(plan.tables.size()) + 1);
  table.MergeFrom(DenseTableOf(spec.parameters, spec.num_parameters));
  if (const float quorum = QuorumOf(config, num_workers); quorum > 0) {
    table.mutable_dense()->set_quorum(quorum);
    table.mutable_dense()->set_pushes_per_worker(DensePushesOf(config));
  }
  table.mutable_dense()->set_staleness_power(
      static_cast<float>(config.dense_staleness_power()));
  plan.dense_table = TableId(table.id());
  plan.tables.push_back(table);
  return plan;
}

}  // namespace

absl::StatusOr<TablePlan> PlanTables(const models::ModelSpec& spec,
                                     const v1::JobConfig& config,
                                     uint32_t num_workers) {
  OARLOCK_RETURN_IF_ERROR(CheckAccessor(config));
  OARLOCK_RETURN_IF_ERROR(CheckStalenessPower(config));
  if (ModeOf(config) != TrainingMode::kGeo)
    return PlanShapes(spec, config, num_workers);
  // A worker counts its own steps.
  OARLOCK_ASSIGN_OR_RETURN(TablePlan plan,
                           PlanShapes(spec, config, /*num_workers=*/1));
  MoveRuleToWorkers(&plan);
  for (size_t i = 0; i < spec.sparse_inputs.size(); ++i) {
    if (!spec.sparse_inputs[i].is_statistics()) continue;
    v1::OptimizerConfig& rule = plan.local_optimizers[i];
    rule.set_l2(GeoDecay(rule.l2(), num_workers, config.geo_steps()));
  }
  return plan;
}

}  // namespace oarlock::worker
