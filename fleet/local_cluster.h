// A whole job in one process: the tables and the coordinator of a server,
// served to the same worker loop without a wire.

#ifndef OARLOCK_FLEET_LOCAL_CLUSTER_H_
#define OARLOCK_FLEET_LOCAL_CLUSTER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "client/job_client.h"
#include "client/parameter_client.h"
#include "coordinator/coordinator.h"
#include "proto/config/job_config.pb.h"
#include "proto/v1/checkpoint.pb.h"
#include "pserver/table/eviction_loop.h"
#include "pserver/table/table_registry.h"

namespace oarlock {

struct LocalTableOptions {
  // Of the job's logical time.
  absl::Duration tick = absl::Seconds(1);
  // See EndEpoch.
  bool tick_per_epoch = false;
  // As that of ServerOptions.
  std::string tier_dir;
  // Logical time is counted on the monotonic one.
  Clocks clocks;
};

// Tables in this process. Calls run on the caller's thread and are done when
// they return.
class LocalParameterClient : public client::ParameterClient {
 public:
  // `num_partitions` is a power of two. The clocks outlive this.
  explicit LocalParameterClient(uint32_t num_partitions,
                                const LocalTableOptions& options = {});

  // Creates the tables of a checkpoint, whose manifest this is and which lies
  // in `folder`, with their rows and dense parameters. Partitions must be as
  // many. DataLoss naming the file that is missing or damaged. REQUIRES:
  // nothing was called before.
  absl::Status Load(const v1::CheckpointManifest& manifest,
                    const std::string& folder);

  // This epoch, from 0, is trained. With `tick_per_epoch` that is the tick:
  // what is due then is evicted when this returns.
  void EndEpoch(uint32_t epoch);

  absl::Status CreateTable(const v1::TableConfig& config) override;
  void SetCutObserver(CutObserver /*observer*/) override {}
  bool in_process() const override { return true; }
  int partition_bits() const override;
  void PullSparse(TableId table, const client::KeyBatch& keys, float* rows,
                  client::TableVersions* versions,
                  std::shared_ptr<const void> memory, Done done) override;
  void PullDense(TableId table, client::DenseReplica* replica,
                 std::shared_ptr<const void> memory, Done done) override;
  // The only worker: nobody else changes anything.
  absl::StatusOr<client::ChangedRows> ListChanges(
      TableId table, client::ChangeMarks* marks) override;
  void Push(const client::PushRequest& push, client::TableVersions* versions,
            std::shared_ptr<const void> memory, Done done) override;

  const pserver::TableRegistry& tables() const { return tables_; }

 private:
  // Errors of CheckFinite, and NotFound for a table.
  absl::Status Check(const client::PushRequest& push) const;
  absl::Status Apply(const client::PushRequest& push);

  const cluster::PartitionMap map_;
  const absl::Duration tick_;
  const bool tick_per_epoch_;
  const Clock& clock_;
  const absl::Time start_;
  pserver::TableRegistry tables_;
  pserver::EvictionLoop eviction_loop_;
  absl::Mutex mutex_;
  // Whether the loop runs: from the first table on that evicts.
  bool evicts_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t last_sequence_ ABSL_GUARDED_BY(mutex_) = 0;
};

// The only worker of a job whose coordinator is in this process.
class LocalJobClient : public client::JobClient {
 public:
  // The coordinator has the wall clock, waits are by the monotonic clock.
  // `tables` are told of epochs that end; null: nobody is. All outlive this.
  explicit LocalJobClient(const Clocks& clocks = {},
                          LocalParameterClient* tables = nullptr);

  WorkerIndex worker_index() const override { return WorkerIndex(0); }
  uint32_t num_workers() const override { return 1; }
  void SetProgressSource(ProgressSource source) override;
  absl::Status Report() override;
  // There are no cuts.
  void SetCutObserver(CutObserver /*observer*/) override {}
  absl::Status MarkCut(uint64_t,
                       const std::vector<v1::TrainedExamples>&) override {
    return absl::OkStatus();
  }
  absl::Status Barrier(const std::string& name) override;
  absl::Status WaitForTrained(uint32_t epoch) override;
  absl::StatusOr<uint64_t> JoinRounds() override { return 0; }
  absl::Status LeaveRounds() override { return absl::OkStatus(); }
  // A worker alone is the slowest: it waits for its own pushes.
  absl::StatusOr<uint64_t> JoinSteps() override {
    absl::MutexLock lock(&mutex_);
    return finished_steps_;
  }
  absl::StatusOr<uint64_t> ReportSteps(uint64_t finished,
                                       uint64_t awaited) override;
  absl::StatusOr<data::ExampleIntervals> DefinePhase(
      const std::string& phase_name, const std::vector<data::DataRange>& items,
      uint64_t num_examples, const std::string& order) override;
  absl::StatusOr<client::Leases> LeaseRanges(
      const std::string& phase_name, uint32_t max_items,
      const std::vector<uint64_t>& done_leases) override;
  absl::Status Checkpoint() override {
    return absl::FailedPreconditionError("a local run makes no checkpoints");
  }
  absl::StatusOr<v1::JobStatusResponse> GetJobStatus() override;
  absl::Status ReportEvaluation(const v1::Evaluation& evaluation) override;
  absl::Status StopTraining(const std::string& reason) override;
  bool training_stopped() const override {
    return coordinator_.training_stopped();
  }
  absl::StatusOr<bool> BeginEpoch(uint32_t epoch) override;
  absl::Status RecordFile(const v1::TrainingFile& file) override;
  absl::StatusOr<v1::FeatureList> DefineFeatures(
      const v1::FeatureList& features) override;
  absl::Status DefineInput(const std::string& name,
                           const std::vector<v1::ListedFile>& files) override;
  absl::StatusOr<Input> GetInput(const std::string& name) override;
  absl::StatusOr<v1::ListFilesResponse> ListFiles(
      uint32_t first_epoch) override;
  absl::Status Alive() const override { return absl::OkStatus(); }
  absl::Status Finish(const absl::Status& outcome) override;

 private:
  const Clock& clock_;
  LocalParameterClient* const tables_;
  coordinator::Coordinator coordinator_;
  uint64_t generation_ = 0;

  absl::Mutex mutex_;
  ProgressSource progress_source_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_report_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t finished_steps_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t last_lease_request_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace oarlock

#endif  // OARLOCK_FLEET_LOCAL_CLUSTER_H_
