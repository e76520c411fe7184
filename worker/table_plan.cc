#include "worker/table_plan.h"

namespace oarlock {
namespace {

v1::Initializer ToProto(const ParameterInit& init) {
  v1::Initializer proto;
  switch (init.kind) {
    case ParameterInit::Kind::kConstant:
      proto.set_constant(init.value);
      break;
    case ParameterInit::Kind::kUniform:
      proto.set_uniform_range(init.value);
      break;
    case ParameterInit::Kind::kNormal:
      proto.set_normal_stddev(init.value);
      break;
  }
  return proto;
}

v1::OptimizerConfig OptimizerOf(const v1::JobConfig& config,
                                uint32_t num_workers) {
  v1::OptimizerConfig optimizer;
  optimizer.set_learning_rate(static_cast<float>(config.learning_rate()));
  // A sync round is one push, whatever the number of workers.
  optimizer.set_warmup_steps(config.warmup_steps() *
                              (config.mode() == "sync" ? 1 : num_workers));
  if (config.optimizer() == "sgd") {
    optimizer.mutable_sgd();
  } else if (config.optimizer() == "adagrad") {
    optimizer.mutable_adagrad()->set_initial_accumulator(
        static_cast<float>(config.adagrad_initial_accumulator()));
  } else {
    optimizer.mutable_adam();
  }
  return optimizer;
}

v1::TableConfig CommonPart(const v1::JobConfig& config,
                           uint32_t num_workers) {
  v1::TableConfig table;
  table.set_mode(config.mode() == "sync" ? v1::SYNC : v1::ASYNC);
  table.set_reduction(config.loss() == "sum" ? v1::SUM : v1::MEAN);
  table.set_seed(config.seed());
  *table.mutable_optimizer() = OptimizerOf(config, num_workers);
  return table;
}

}  // namespace

TablePlan PlanTables(const ModelSpec& spec, const v1::JobConfig& config,
                     uint32_t num_workers) {
  TablePlan plan;
  for (const SparseInputSpec& input : spec.sparse_inputs) {
    v1::TableConfig table = CommonPart(config, num_workers);
    table.set_id(static_cast<uint32_t>(plan.tables.size()) + 1);
    table.set_name(input.table);
    v1::SparseTableConfig* sparse = table.mutable_sparse();
    sparse->set_dim(static_cast<uint32_t>(input.row_dim));
    sparse->set_accessor(v1::PLAIN);
    *sparse->mutable_initializer() = ToProto(input.init);
    plan.sparse_tables.push_back(TableId(table.id()));
    plan.tables.push_back(table);
  }
  if (spec.num_parameters == 0) return plan;
  v1::TableConfig table = CommonPart(config, num_workers);
  table.set_id(static_cast<uint32_t>(plan.tables.size()) + 1);
  table.set_name("dense");
  v1::DenseTableConfig* dense = table.mutable_dense();
  dense->set_size(spec.num_parameters);
  dense->set_block_size(kDenseBlockFloats);
  for (const ParameterSpec& parameter : spec.parameters) {
    v1::DenseParameter* proto = dense->add_parameters();
    proto->set_name(parameter.name);
    proto->set_offset(parameter.offset);
    for (size_t extent : parameter.shape) proto->add_shape(extent);
    *proto->mutable_initializer() = ToProto(parameter.init);
  }
  plan.dense_table = TableId(table.id());
  plan.tables.push_back(table);
  return plan;
}

}  // namespace oarlock
