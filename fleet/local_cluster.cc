#include "fleet/local_cluster.h"

#include <algorithm>
#include <utility>

#include "base/call_and_wait.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "client/finite_push.h"
#include "client/messages/input_messages.h"
#include "client/range_messages.h"
#include "pserver/checkpoint/part_loader.h"

namespace oarlock {
namespace {

constexpr ServerIndex kOnlyServer(0);
// The only worker's only incarnation.
constexpr Generation kOnlyGeneration(1);
// How long a compute thread waits for the worker's own steps before it looks
// again.
constexpr absl::Duration kStepWait = absl::Seconds(1);

// Brings `replica` up to date with the table.
void CopyDense(const pserver::TableEntry& entry,
               client::DenseReplica* replica) {
  const sparse_table::DenseTable& dense = *entry.dense;
  replica->values.resize(entry.config.dense().size());
  replica->block_versions.resize(dense.num_blocks());
  size_t offset = 0;
  for (uint32_t b = 0; b < dense.num_blocks(); ++b) {
    uint64_t& version = replica->block_versions[b];
    version =
        dense.Pull(BlockIndex(b), version, replica->values.data() + offset);
    offset += dense.BlockSize(BlockIndex(b));
  }
}

}  // namespace

LocalParameterClient::LocalParameterClient(uint32_t num_partitions,
                                           const LocalTableOptions& options)
    : map_(cluster::PartitionMap::Even(num_partitions, 1)),
      tick_(options.tick),
      tick_per_epoch_(options.tick_per_epoch),
      clock_(*options.clocks.monotonic),
      start_(clock_.Now()),
      tables_(map_, kOnlyServer, clock_, options.tier_dir),
      eviction_loop_(&tables_, pserver::EvictionLoop::DoUnrecorded, clock_) {}

absl::Status LocalParameterClient::Load(const v1::CheckpointManifest& manifest,
                                        const std::string& folder) {
  pserver::PartLoaderOptions options;
  options.folder = folder;
  options.server = kOnlyServer;
  options.parameters_only = true;
  return pserver::LoadPart(manifest, options, map_, &tables_);
}

absl::Status LocalParameterClient::CreateTable(const v1::TableConfig& config) {
  OARLOCK_RETURN_IF_ERROR(tables_.Create(config));
  absl::MutexLock lock(&mutex_);
  if (config.sparse().has_eviction() && !std::exchange(evicts_, true)) {
    eviction_loop_.Start();
  }
  return absl::OkStatus();
}

void LocalParameterClient::EndEpoch(uint32_t epoch) {
  if (!tick_per_epoch_) return;
  tables_.clock().AdvanceTo(epoch + 1);
  {
    absl::MutexLock lock(&mutex_);
    if (!evicts_) return;
  }
  eviction_loop_.AwaitEvicted(epoch + 1);
}

int LocalParameterClient::partition_bits() const {
  return map_.partition_bits();
}

void LocalParameterClient::PullSparse(TableId table,
                                      const client::KeyBatch& keys, float* rows,
                                      client::TableVersions* versions,
                                      std::shared_ptr<const void> memory,
                                      Done done) {
  const absl::StatusOr<pserver::TableEntry*> entry = tables_.Find(table);
  absl::Status status = entry.status();
  if (entry.ok()) {
    if (versions != nullptr) {
      absl::MutexLock lock(&mutex_);
      versions->assign(1, last_sequence_);
    }
    status = (*entry)->sparse->Pull(keys.groups(), keys.keys().data(), rows,
                                    nullptr);
  }
  done(std::move(status));
}

void LocalParameterClient::PullDense(TableId table,
                                     client::DenseReplica* replica,
                                     std::shared_ptr<const void> memory,
                                     Done done) {
  const absl::StatusOr<pserver::TableEntry*> entry = tables_.Find(table);
  if (!entry.ok()) {
    done(entry.status());
    return;
  }
  CopyDense(**entry, replica);
  done(absl::OkStatus());
}

absl::StatusOr<client::ChangedRows> LocalParameterClient::ListChanges(
    TableId table, client::ChangeMarks* marks) {
  client::ChangedRows changes;
  absl::MutexLock lock(&mutex_);
  changes.versions.assign(1, last_sequence_);
  return changes;
}

void LocalParameterClient::Push(const client::PushRequest& push,
                                client::TableVersions* versions,
                                std::shared_ptr<const void> memory, Done done) {
  absl::Status status = Check(push);
  if (status.ok()) status = Apply(push);
  if (versions != nullptr) {
    absl::MutexLock lock(&mutex_);
    versions->assign(1, last_sequence_);
  }
  done(std::move(status));
}

absl::Status LocalParameterClient::Check(
    const client::PushRequest& push) const {
  for (const client::SparseGradients& sparse : push.sparse) {
    OARLOCK_RETURN_IF_ERROR(tables_.Find(sparse.table).status());
  }
  for (const client::DenseGradients& dense : push.dense) {
    OARLOCK_RETURN_IF_ERROR(tables_.Find(dense.table).status());
  }
  return client::CheckFinite(push,
                             [this](TableId table) -> const v1::TableConfig& {
                               return (*tables_.Find(table))->config;
                             });
}

absl::Status LocalParameterClient::Apply(const client::PushRequest& push) {
  PushStamp stamp{WorkerIndex(0), kOnlyGeneration, Sequence(0)};
  if (push.completes.has_value()) {
    stamp = *push.completes;
  } else {
    absl::MutexLock lock(&mutex_);
    stamp.sequence = Sequence(++last_sequence_);
  }
  if (!tick_per_epoch_) {
    tables_.clock().AdvanceTo(
        static_cast<uint32_t>((clock_.Now() - start_) / tick_));
  }
  for (const client::SparseGradients& sparse : push.sparse) {
    OARLOCK_ASSIGN_OR_RETURN(pserver::TableEntry* const entry,
                             tables_.Find(sparse.table));
    sparse_table::SparsePush table_push;
    table_push.groups = sparse.keys->groups();
    table_push.keys = sparse.keys->keys().data();
    table_push.gradients = sparse.gradients;
    table_push.shows = sparse.shows;
    table_push.clicks = sparse.clicks;
    table_push.stamps = absl::MakeConstSpan(&stamp, 1);
    table_push.logical_time = tables_.clock().Now();
    OARLOCK_RETURN_IF_ERROR(entry->sparse->Push(table_push).status());
  }
  for (const client::DenseGradients& dense : push.dense) {
    OARLOCK_ASSIGN_OR_RETURN(pserver::TableEntry* const entry,
                             tables_.Find(dense.table));
    // As on servers: a round is one step, whatever it was summed of.
    const uint32_t num_steps =
        entry->aggregator->HasRounds() ? 1 : std::max(1u, dense.num_steps);
    size_t offset = 0;
    for (uint32_t b = 0; b < entry->dense->num_blocks(); ++b) {
      entry->dense->Push(
          BlockIndex(b), dense.gradients + offset,
          absl::MakeConstSpan(&stamp, 1), num_steps,
          dense.known_versions.empty() ? 0 : dense.known_versions[b]);
      offset += entry->dense->BlockSize(BlockIndex(b));
    }
    if (dense.updated != nullptr) CopyDense(*entry, dense.updated);
  }
  return absl::OkStatus();
}

LocalJobClient::LocalJobClient(const Clocks& clocks,
                               LocalParameterClient* tables)
    : clock_(*clocks.monotonic),
      tables_(tables),
      coordinator_(coordinator::CoordinatorOptions{.job_id = "local"},
                   *clocks.wall) {
  const absl::StatusOr<v1::RegisterWorkerResponse> registered =
      coordinator_.RegisterWorker(v1::RegisterWorkerRequest());
  // A fresh coordinator takes its only worker.
  OARLOCK_CHECK(registered.ok());
  generation_ = registered->worker_generation();
}

void LocalJobClient::SetProgressSource(ProgressSource source) {
  absl::MutexLock lock(&mutex_);
  progress_source_ = std::move(source);
}

absl::Status LocalJobClient::Report() {
  absl::MutexLock lock(&mutex_);
  v1::HeartbeatRequest request;
  request.set_worker_generation(generation_);
  request.set_report(++last_report_);
  if (progress_source_) {
    for (v1::PhaseProgress& progress : progress_source_()) {
      *request.add_progress() = std::move(progress);
    }
  }
  return coordinator_.Heartbeat(request).status();
}

absl::Status LocalJobClient::Barrier(const std::string& name) {
  v1::BarrierRequest request;
  request.set_name(name);
  request.set_worker_generation(generation_);
  request.set_wait_ms(1000);
  return CallAndWait([&](absl::AnyInvocable<void(absl::Status)> done) {
    coordinator_.Barrier(request, std::move(done));
  });
}

absl::Status LocalJobClient::WaitForTrained(uint32_t epoch) {
  OARLOCK_RETURN_IF_ERROR(client::JobClient::WaitForTrained(epoch));
  if (tables_ != nullptr) tables_->EndEpoch(epoch);
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> LocalJobClient::ReportSteps(uint64_t finished,
                                                     uint64_t awaited) {
  absl::MutexLock lock(&mutex_);
  finished_steps_ = std::max(finished_steps_, finished);
  const auto reached = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return finished_steps_ >= awaited;
  };
  clock_.AwaitFor(&mutex_, absl::Condition(&reached), kStepWait);
  return finished_steps_;
}

absl::StatusOr<data::ExampleIntervals> LocalJobClient::DefinePhase(
    const std::string& phase_name, const std::vector<data::DataRange>& items,
    uint64_t num_examples, const std::string& order) {
  const v1::DefinePhaseRequest request =
      client::ToDefinePhaseRequest(phase_name, items, num_examples, order);
  OARLOCK_RETURN_IF_ERROR(coordinator_.DefinePhase(request).status());
  return data::ExampleIntervals();
}

absl::StatusOr<client::Leases> LocalJobClient::LeaseRanges(
    const std::string& phase_name, uint32_t max_items,
    const std::vector<uint64_t>& done_leases) {
  v1::LeaseRangesRequest request;
  request.set_phase_name(phase_name);
  request.set_worker_generation(generation_);
  request.set_max_ranges(max_items);
  for (uint64_t lease : done_leases) request.add_done(lease);
  // One call at a time, so that they come in the order of their numbers.
  absl::MutexLock lock(&mutex_);
  request.set_request(++last_lease_request_);
  OARLOCK_ASSIGN_OR_RETURN(const v1::LeaseRangesResponse response,
                           coordinator_.LeaseRanges(request));
  return client::ToLeases(response);
}

absl::StatusOr<v1::JobStatusResponse> LocalJobClient::GetJobStatus() {
  OARLOCK_RETURN_IF_ERROR(Report());
  return coordinator_.JobStatus(v1::JobStatusRequest());
}

absl::Status LocalJobClient::ReportEvaluation(
    const v1::Evaluation& evaluation) {
  v1::ReportEvaluationRequest request;
  request.set_worker_generation(generation_);
  *request.mutable_evaluation() = evaluation;
  return coordinator_.ReportEvaluation(request);
}

absl::Status LocalJobClient::StopTraining(const std::string& reason) {
  v1::StopTrainingRequest request;
  request.set_reason(reason);
  return coordinator_.StopTraining(request);
}

absl::StatusOr<bool> LocalJobClient::BeginEpoch(uint32_t epoch) {
  v1::BeginEpochRequest request;
  request.set_epoch(epoch);
  OARLOCK_ASSIGN_OR_RETURN(const v1::BeginEpochResponse response,
                           coordinator_.BeginEpoch(request));
  return response.begins();
}

absl::Status LocalJobClient::RecordFile(const v1::TrainingFile& file) {
  v1::RecordFileRequest request;
  request.set_worker_generation(generation_);
  *request.mutable_file() = file;
  return coordinator_.RecordFile(request);
}

absl::StatusOr<v1::FeatureList> LocalJobClient::DefineFeatures(
    const v1::FeatureList& features) {
  v1::DefineFeaturesRequest request;
  request.set_worker_generation(generation_);
  *request.mutable_features() = features;
  OARLOCK_ASSIGN_OR_RETURN(const v1::DefineFeaturesResponse response,
                           coordinator_.DefineFeatures(request));
  return response.features();
}

absl::Status LocalJobClient::DefineInput(
    const std::string& name, const std::vector<v1::ListedFile>& files) {
  for (v1::DefineInputRequest& request : client::InputParts(name, files)) {
    request.set_worker_generation(generation_);
    OARLOCK_RETURN_IF_ERROR(coordinator_.DefineInput(request));
  }
  return absl::OkStatus();
}

absl::StatusOr<client::JobClient::Input> LocalJobClient::GetInput(
    const std::string& name) {
  Input input;
  v1::GetInputRequest request;
  request.set_worker_generation(generation_);
  request.set_name(name);
  for (bool last = false; !last; request.set_part(request.part() + 1)) {
    OARLOCK_ASSIGN_OR_RETURN(const v1::GetInputResponse response,
                             coordinator_.GetInput(request));
    last = client::AppendPart(response, &input);
  }
  return input;
}

absl::StatusOr<v1::ListFilesResponse> LocalJobClient::ListFiles(
    uint32_t first_epoch) {
  v1::ListFilesRequest request;
  request.set_first_epoch(first_epoch);
  return coordinator_.ListFiles(request);
}

absl::Status LocalJobClient::Finish(const absl::Status& outcome) {
  // Nobody else waits for this job: the caller has the reason.
  if (!outcome.ok()) return absl::OkStatus();
  v1::FinishWorkerRequest request;
  request.set_worker_generation(generation_);
  request.set_succeeded(true);
  return coordinator_.FinishWorker(request);
}

}  // namespace oarlock
