// The job client that speaks gRPC to the coordinator (server 0).

#ifndef OARLOCK_CLIENT_GRPC_JOB_CLIENT_H_
#define OARLOCK_CLIENT_GRPC_JOB_CLIENT_H_

#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/job_client.h"
#include "client/server_connections.h"

namespace oarlock::client {

// A thread of its own renews the lease and sends progress.
class GrpcJobClient : public JobClient {
 public:
  // Registers the worker and starts the heartbeat. `connections` outlives the
  // client. InvalidArgument when the job has no worker of that index.
  // `description`: what the job trains, for those who score with it; null: this
  // worker does not say.
  static absl::StatusOr<std::unique_ptr<GrpcJobClient>> Register(
      const ServerConnections* connections, WorkerIndex worker_index,
      const v1::JobDescription* description = nullptr,
      const v1::JobDescription& settings = {});
  // The same with a request of the caller's, for whoever trains epochs: where
  // the run before has left something else in part, in a job that stays, the
  // servers go back to the newest cut first.
  static absl::StatusOr<std::unique_ptr<GrpcJobClient>> RegisterForEpochs(
      const ServerConnections* connections, v1::RegisterWorkerRequest request);
  // The same for whoever looks at `unfinished` itself; host, process, version
  // and the registration's id are filled in.
  static absl::StatusOr<std::unique_ptr<GrpcJobClient>> Register(
      const ServerConnections* connections, v1::RegisterWorkerRequest request);
  ~GrpcJobClient() override;

  const v1::RegisterWorkerResponse& registration() const {
    return registration_;
  }

  // This worker's incarnation; its pushes carry it.
  Generation generation() const { return generation_; }

  WorkerIndex worker_index() const override { return worker_index_; }
  uint32_t num_workers() const override { return registration_.num_workers(); }
  void SetProgressSource(ProgressSource source) override;
  absl::Status Report() override;
  bool takes_cuts() const override { return connections_->has_checkpoints(); }
  uint64_t first_cut() const override { return first_cut_; }
  uint32_t trained_epochs() const override { return trained_epochs_; }
  uint32_t own_trained_epochs() const override { return own_trained_epochs_; }
  void SetCutObserver(CutObserver observer) override;
  absl::Status MarkCut(
      uint64_t cut, const std::vector<v1::TrainedExamples>& trained) override;
  absl::Status Barrier(const std::string& name) override;
  absl::Status WaitForTrained(uint32_t epoch) override;
  absl::StatusOr<uint64_t> JoinRounds() override;
  absl::Status LeaveRounds() override;
  absl::StatusOr<uint64_t> JoinSteps() override;
  absl::StatusOr<uint64_t> ReportSteps(uint64_t finished,
                                       uint64_t awaited) override;
  absl::Status LeaveSteps() override;
  absl::StatusOr<data::ExampleIntervals> DefinePhase(
      const std::string& phase_name, const std::vector<data::DataRange>& items,
      uint64_t num_examples, const std::string& order) override;
  absl::StatusOr<Leases> LeaseRanges(
      const std::string& phase_name, uint32_t max_items,
      const std::vector<uint64_t>& done_leases) override;
  absl::StatusOr<v1::JobStatusResponse> GetJobStatus() override;
  absl::Status Checkpoint() override;
  absl::StatusOr<std::string> CheckpointBest() override;
  absl::Status ReportEvaluation(const v1::Evaluation& evaluation) override;
  absl::Status StopTraining(const std::string& reason) override;
  bool training_stopped() const override { return training_stopped_; }
  absl::StatusOr<bool> BeginEpoch(uint32_t epoch) override;
  absl::Status RecordFile(const v1::TrainingFile& file) override;
  absl::StatusOr<v1::FeatureList> DefineFeatures(
      const v1::FeatureList& features) override;
  absl::Status DefineInput(const std::string& name,
                           const std::vector<v1::ListedFile>& files) override;
  absl::StatusOr<Input> GetInput(const std::string& name) override;
  absl::StatusOr<v1::ListFilesResponse> ListFiles(
      uint32_t first_epoch) override;
  absl::Status Alive() const override;
  absl::Status Finish(const absl::Status& outcome) override;
  // In a job that stays: gives up, and has all servers go back to the newest
  // cut. The run is over for all of its workers.
  absl::Status RollBack(const std::string& reason);

 private:
  GrpcJobClient(const ServerConnections* connections, WorkerIndex worker_index)
      : connections_(connections), worker_index_(worker_index) {}

  v1::CoordinatorService::Stub& coordinator() const {
    return connections_->coordinator();
  }
  absl::StatusOr<v1::CheckpointResponse> MakeCheckpoint(bool best);
  absl::Status FinishWith(const absl::Status& outcome, bool roll_back);
  // On all servers; the most complete rounds that one of them tells.
  absl::StatusOr<uint64_t> SetRoundMembership(bool joins);
  // `number` tells the call from those before and after it.
  absl::StatusOr<uint64_t> SetRoundMembership(ServerIndex server, bool joins,
                                              uint64_t number,
                                              absl::Duration give_up_after);
  absl::Status WaitAtBarrier(const std::string& name, uint32_t trained_epochs);
  // With this worker's name and the call's number.
  absl::StatusOr<v1::StepClockResponse> CallStepClock(
      v1::StepClockRequest request);
  // The next call that leases ranges gets a number, once it is less than
  // kMaxLeaseCallSpan above all unanswered ones; and it was answered.
  uint64_t BeginLease();
  void EndLease(uint64_t number);
  // A server has come back; it may not know that this worker is in its rounds,
  // or a late repetition may have told it so.
  absl::Status RejoinRounds(ServerIndex server);
  void HeartbeatLoop();
  void StopHeartbeat();
  // The coordinator need not stay for this worker.
  void SendLastHeartbeat();
  // Records why this worker has to stop; the first reason is kept.
  void Lost(const absl::Status& why);

  const ServerConnections* const connections_;
  const WorkerIndex worker_index_;
  v1::RegisterWorkerResponse registration_;
  Generation generation_;
  absl::Duration lease_;
  uint64_t first_cut_ = 0;
  uint32_t trained_epochs_ = 0;
  uint32_t own_trained_epochs_ = 0;
  // As the last heartbeat's response says.
  std::atomic<bool> training_stopped_ = false;

  // One report is under way at a time, so that numbers and contents match.
  absl::Mutex report_mutex_;
  ProgressSource progress_source_ ABSL_GUARDED_BY(report_mutex_);
  uint64_t last_report_ ABSL_GUARDED_BY(report_mutex_) = 0;
  // The highest term of the coordinator that a response has named.
  uint64_t term_ ABSL_GUARDED_BY(report_mutex_) = 0;

  // Held while the observer is called.
  absl::Mutex observer_mutex_;
  CutObserver cut_observer_ ABSL_GUARDED_BY(observer_mutex_);

  mutable absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status alive_ ABSL_GUARDED_BY(mutex_);
  bool in_rounds_ ABSL_GUARDED_BY(mutex_) = false;
  // Number of the last call that joined or left; 0: none.
  uint64_t last_round_request_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t last_step_request_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t last_lease_request_ ABSL_GUARDED_BY(mutex_) = 0;
  // Numbers of the calls under way.
  std::set<uint64_t> unanswered_leases_ ABSL_GUARDED_BY(mutex_);
  std::thread heartbeat_;
};

}  // namespace oarlock::client

#endif  // OARLOCK_CLIENT_GRPC_JOB_CLIENT_H_
