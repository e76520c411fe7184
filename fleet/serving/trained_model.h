// The tables of a trained model, to read from: those of a checkpoint, in this
// process, or those of a running job.

#ifndef OARLOCK_FLEET_SERVING_TRAINED_MODEL_H_
#define OARLOCK_FLEET_SERVING_TRAINED_MODEL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/types.h"
#include "client/parameter_client.h"
#include "client/server_connections.h"
#include "cluster/security.h"
#include "fleet/serving/temporary_dir.h"
#include "models/model.h"
#include "proto/config/job_config.pb.h"
#include "proto/v1/job_description.pb.h"
#include "proto/v1/table.pb.h"

namespace oarlock {

// In the order in which they need each other.
struct TrainedModel {
  // "checkpoints/ckpt-00000003", "the job at 127.0.0.1:6174": for messages.
  std::string origin;
  // Without flags: the job did not say what it trains.
  v1::JobDescription description;
  std::vector<v1::TableConfig> tables;
  // Null where the tables are in this process.
  std::unique_ptr<client::ServerConnections> connections;
  // Where rows beyond the memory budget lie, unless in a tier_dir.
  std::unique_ptr<TemporaryDir> temporary_dir;
  std::unique_ptr<client::ParameterClient> parameters;
};

struct LoadOptions {
  // Of each sparse table; 0: what the job trained with. Rows beyond it lie on
  // disk, in tier_dir.
  uint64_t memory_budget_bytes = 0;
  // Used only by tables with a memory budget. Empty: a folder that ends with
  // the model, in the system's temporary one.
  std::string tier_dir;
  // They outlive the model.
  Clocks clocks;
};

// Loads a checkpoint: `path` is its folder ckpt-N, or one with CURRENT.
// NotFound; DataLoss naming the file that is missing or damaged;
// FailedPrecondition when the rows of tables without a memory budget would not
// fit into the memory that is free.
absl::StatusOr<TrainedModel> LoadTrainedModel(const std::string& path,
                                              const LoadOptions& options);

// Connects to a running job as a reader: it pulls, and nobody waits for it.
// `endpoints`: all servers, in the order of their indices. Of `config` what
// says how servers are reached. FailedPrecondition when the job has no tables
// yet; errors of ServerConnections::Connect. The clocks outlive the model.
absl::StatusOr<TrainedModel> ReachTrainedModel(
    const std::vector<std::string>& endpoints, const std::string& job_id,
    const cluster::SecurityOptions& security, const v1::JobConfig& config,
    const Clocks& clocks);

// Which of the tables a model reads.
struct ModelTables {
  // One per sparse input of the model.
  std::vector<TableId> sparse;
  // Id 0: the model has no dense parameters.
  TableId dense;
};

// InvalidArgument, naming the table, when there is none of the name and
// shape that the model needs.
absl::StatusOr<ModelTables> FindModelTables(
    const models::ModelSpec& spec, const std::vector<v1::TableConfig>& tables,
    const std::string& origin);

}  // namespace oarlock

#endif  // OARLOCK_FLEET_SERVING_TRAINED_MODEL_H_
