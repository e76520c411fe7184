// The tables that a model needs, as the servers want to hear of them.

#ifndef OARLOCK_WORKER_CONFIG_TABLE_PLAN_H_
#define OARLOCK_WORKER_CONFIG_TABLE_PLAN_H_

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "base/types.h"
#include "models/model.h"
#include "nn/parameter.h"
#include "proto/config/job_config.pb.h"
#include "proto/v1/table.pb.h"

namespace oarlock::worker {

// Floats in a block of a dense table: 64 KiB, so that a message of 1 MiB holds
// sixteen and a table of a few hundred thousand floats spreads over servers.
inline constexpr uint32_t kDenseBlockFloats = 16384;

struct TablePlan {
  // One per sparse input of the model, then the dense table if it has any
  // dense parameters.
  std::vector<v1::TableConfig> tables;
  std::vector<TableId> sparse_tables;
  TableId dense_table;  // 0: none
  // Geo mode: the rules that workers apply, one per table; the tables have a
  // rule that subtracts what is pushed. Else empty.
  std::vector<v1::OptimizerConfig> local_optimizers;
};

// A dense table of these parameters, with their initial values; what else there
// is of it is the caller's.
v1::TableConfig DenseTableOf(const std::vector<nn::ParameterSpec>& parameters,
                             size_t num_parameters);

// The same on every worker: ids and seeds follow from the model and `config`.
// InvalidArgument when options of the optimizer or of rows contradict each
// other. Flags that the mode leaves without effect CheckFlagUse has refused.
absl::StatusOr<TablePlan> PlanTables(const models::ModelSpec& spec,
                                     const v1::JobConfig& config,
                                     uint32_t num_workers);

}  // namespace oarlock::worker

#endif  // OARLOCK_WORKER_CONFIG_TABLE_PLAN_H_
