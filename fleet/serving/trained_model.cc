#include "fleet/serving/trained_model.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "base/process/free_memory.h"
#include "base/status_macros.h"
#include "checkpoint/manifest.h"
#include "client/grpc_parameter_client.h"
#include "fleet/local_cluster.h"
#include "sparse_table/rules/row_rules.h"
#include "storage/file_system.h"
#include "wire/value_format.h"

namespace oarlock {
namespace {

// Of the index, about.
constexpr uint64_t kIndexBytesPerRow = 16;

uint64_t RowsOf(const v1::CheckpointManifest& manifest, uint32_t table) {
  uint64_t rows = 0;
  for (const v1::ServerPart& server : manifest.servers()) {
    for (const v1::TablePart& part : server.tables()) {
      if (part.table() == table) rows += part.rows();
    }
  }
  return rows;
}

// FailedPrecondition when rows that have to be in memory do not fit.
absl::Status CheckFits(const checkpoint::LoadedCheckpoint& checkpoint) {
  const v1::CheckpointManifest& manifest = checkpoint.manifest;
  uint64_t bytes = 0;
  for (const v1::TableConfig& table : manifest.tables()) {
    if (!table.has_sparse() || table.sparse().memory_budget_bytes() > 0) {
      continue;
    }
    OARLOCK_ASSIGN_OR_RETURN(
        const sparse_table::RowRules rules,
        sparse_table::RowRules::Create(
            table, std::bit_width(manifest.num_partitions()) - 1));
    bytes += RowsOf(manifest, table.id()) *
             (rules.layout().row_bytes() + kIndexBytesPerRow);
  }
  const uint64_t free = FreeMemoryBytes();
  if (free == 0 || bytes <= free) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the rows of ", checkpoint.folder, " take about ", bytes >> 20,
      " MB, and ", free >> 20,
      " MB of memory are free; with --memory_budget_mb the rows beyond it lie "
      "on disk, in --tier_dir"));
}

bool HasBudget(const v1::CheckpointManifest& manifest) {
  return std::any_of(manifest.tables().begin(), manifest.tables().end(),
                     [](const v1::TableConfig& table) {
                       return table.sparse().memory_budget_bytes() > 0;
                     });
}

// "rows of 11 floats".
std::string RowsText(uint64_t dim) {
  return absl::StrCat("rows of ", dim, " floats");
}

const v1::TableConfig* FindTable(const std::vector<v1::TableConfig>& tables,
                                 const std::string& name) {
  for (const v1::TableConfig& table : tables) {
    if (table.name() == name) return &table;
  }
  return nullptr;
}

absl::Status DoesNotFit(const models::ModelSpec& spec, const std::string& table,
                        const std::string& needed, const std::string& origin,
                        const std::string& found) {
  return absl::InvalidArgumentError(absl::StrCat(
      "the model ", spec.name, " needs a table '", table, "' of ", needed, ", ",
      origin, " has ", found,
      "; give the --model and the other flags that it was trained with"));
}

bool SameParameters(const models::ModelSpec& spec,
                    const v1::DenseTableConfig& dense) {
  return dense.size() == spec.num_parameters &&
         std::equal(
             spec.parameters.begin(), spec.parameters.end(),
             dense.parameters().begin(), dense.parameters().end(),
             [](const nn::ParameterSpec& a, const v1::DenseParameter& b) {
               return a.name == b.name() && a.offset == b.offset() &&
                      std::equal(a.shape.begin(), a.shape.end(),
                                 b.shape().begin(), b.shape().end());
             });
}

}  // namespace

absl::StatusOr<TrainedModel> LoadTrainedModel(const std::string& path,
                                              const LoadOptions& options) {
  OARLOCK_ASSIGN_OR_RETURN(
      checkpoint::LoadedCheckpoint checkpoint,
      checkpoint::LoadCheckpoint(storage::FileSystem::Real(), path));
  v1::CheckpointManifest& manifest = checkpoint.manifest;
  for (v1::TableConfig& table : *manifest.mutable_tables()) {
    if (!table.has_sparse()) continue;
    // Rows are read and stay as they are.
    table.mutable_sparse()->clear_eviction();
    if (options.memory_budget_bytes > 0) {
      table.mutable_sparse()->set_memory_budget_bytes(
          options.memory_budget_bytes);
    }
  }
  OARLOCK_RETURN_IF_ERROR(CheckFits(checkpoint));
  TrainedModel trained;
  trained.origin = checkpoint.folder;
  trained.description = manifest.description();
  trained.tables.assign(manifest.tables().begin(), manifest.tables().end());
  std::string tier_dir = options.tier_dir;
  if (tier_dir.empty() && HasBudget(manifest)) {
    OARLOCK_ASSIGN_OR_RETURN(trained.temporary_dir,
                             TemporaryDir::Create("oarlock-infer"));
    tier_dir = trained.temporary_dir->path();
  }
  auto parameters = std::make_unique<LocalParameterClient>(
      manifest.num_partitions(),
      LocalTableOptions{.tier_dir = tier_dir, .clocks = options.clocks});
  OARLOCK_RETURN_IF_ERROR(parameters->Load(manifest, checkpoint.folder));
  trained.parameters = std::move(parameters);
  return trained;
}

absl::StatusOr<TrainedModel> ReachTrainedModel(
    const std::vector<std::string>& endpoints, const std::string& job_id,
    const cluster::SecurityOptions& security, const v1::JobConfig& config,
    const Clocks& clocks) {
  client::ConnectionOptions options;
  options.endpoints = endpoints;
  options.job_id = job_id;
  options.client_name = "reader";
  options.connect_timeout = absl::Seconds(config.connect_timeout_s());
  options.rpc_timeout = absl::Seconds(config.rpc_timeout_s());
  options.security = security;
  options.clocks = clocks;
  client::ValueFormats formats;
  OARLOCK_ASSIGN_OR_RETURN(formats.pull,
                           wire::ParseValueFormat(config.pull_format()));
  TrainedModel trained;
  trained.origin = absl::StrCat("the job at ", absl::StrJoin(endpoints, ","));
  OARLOCK_ASSIGN_OR_RETURN(trained.connections,
                           client::ServerConnections::Connect(options));
  const client::ServerConnections& servers = *trained.connections;
  v1::JobStatusRequest ask_job;
  ask_job.set_with_description(true);
  v1::JobStatusResponse job;
  OARLOCK_RETURN_IF_ERROR(servers.CallWithRetries(
      ServerIndex(0), [&](grpc::ClientContext* context) {
        return servers.coordinator().GetJobStatus(context, ask_job, &job);
      }));
  trained.description = job.description();
  v1::ServerStatusResponse server;
  OARLOCK_RETURN_IF_ERROR(servers.CallWithRetries(
      ServerIndex(0), [&](grpc::ClientContext* context) {
        return servers.servers()[0].admin->GetServerStatus(
            context, v1::ServerStatusRequest(), &server);
      }));
  auto parameters = std::make_unique<client::GrpcParameterClient>(
      trained.connections.get(), WorkerIndex(0), Generation(0), formats);
  for (const v1::TableStatus& table : server.tables()) {
    parameters->UseTable(table.config());
    trained.tables.push_back(table.config());
  }
  if (trained.tables.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(trained.origin,
                     " has no tables yet: its workers make them when they "
                     "begin; try again then"));
  }
  trained.parameters = std::move(parameters);
  return trained;
}

absl::StatusOr<ModelTables> FindModelTables(
    const models::ModelSpec& spec, const std::vector<v1::TableConfig>& tables,
    const std::string& origin) {
  ModelTables found;
  for (const models::SparseInputSpec& input : spec.sparse_inputs) {
    const v1::TableConfig* const table = FindTable(tables, input.table);
    const uint64_t dim = table == nullptr ? 0 : table->sparse().dim();
    if (dim != input.row_dim) {
      return DoesNotFit(spec, input.table, RowsText(input.row_dim), origin,
                        table == nullptr ? "none" : RowsText(dim));
    }
    found.sparse.push_back(TableId(table->id()));
  }
  if (spec.num_parameters == 0) return found;
  const v1::TableConfig* const dense = FindTable(tables, "dense");
  if (dense == nullptr || !SameParameters(spec, dense->dense())) {
    return DoesNotFit(
        spec, "dense", absl::StrCat(spec.num_parameters, " values"), origin,
        dense == nullptr ? "none"
                         : absl::StrCat(dense->dense().size(),
                                        " values with other names or shapes"));
  }
  found.dense = TableId(dense->id());
  return found;
}

}  // namespace oarlock
