// Server 0's extra duty: who takes part in the job, where they meet, who works
// on what, how far the job is, and when it is over. Knows no gRPC.
//
// Worker life. A worker registers and gets a generation; registering the same
// index again fences the older one. It is ALIVE while it renews its lease.
// When the lease runs out it is LOST: fenced and no longer waited for. FINISHED
// and FAILED are what it says itself. Time in which the coordinator itself did
// not run counts on nobody's lease.
//
// Who has its ranges next. When a worker dies that had leased examples of an
// epoch, every server is asked for its ledger of the incarnation, also
// one that is away and comes back; then everything that the incarnation had is
// covered, completed by others, or leased again (dead_worker_recovery.h): each
// example is trained exactly once. No cut is opened until that is done. What
// others had is leased again as soon as no server that is alive would accept
// their pushes any more. Contributions to rounds (sync) are in no ledger: what
// was leased there is leased again as a whole, but for what is covered.
//
// Logical time is a counter from 0, one more for every `tick` in which the
// coordinator ran. Servers learn it with their heartbeats.
//
// A job that stays (CoordinatorOptions) has one run of workers after another:
// what is said here of the job is true of a run, but that nobody who is lost or
// gives up ends it: the others go on (coordinator_runs.cc).
//
// The job's end. It has succeeded when every worker is FINISHED. It fails when
// a worker FAILED, when one is LOST and no successor registers within
// `restart_grace`, when one has not registered `start_timeout` after the first
// one did, or when a server is asked to stop. A job that fails or is drained
// goes on until no worker is ALIVE, at most `drain_grace`: workers learn it
// from their heartbeats, waiting calls are answered FailedPrecondition.
//
// A new run. When all processes died the logs bring the job back, but for its
// processes: what older incarnations of workers had is recovered as at any
// death, and the new ones, any number of them, begin in the first epoch that
// was not known to be over (BeginRun).
//
// What it is follows from the calls that it has taken and the times at which it
// took them. With a log each is written down before it is done, so that a
// successor can do the same again (coordinator/log/coordinator_log.h).

#ifndef OARLOCK_COORDINATOR_COORDINATOR_H_
#define OARLOCK_COORDINATOR_COORDINATOR_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/types.h"
#include "coordinator/barriers.h"
#include "coordinator/call_log.h"
#include "coordinator/call_logger.h"
#include "coordinator/coordinator_options.h"
#include "coordinator/cut_state.h"
#include "coordinator/dead_workers.h"
#include "coordinator/inputs/input_files.h"
#include "coordinator/inputs/job_features.h"
#include "coordinator/job_progress.h"
#include "coordinator/ranges/range_queue.h"
#include "coordinator/ranges/training_state.h"
#include "coordinator/run_settings.h"
#include "coordinator/server_records.h"
#include "coordinator/step_clocks.h"
#include "coordinator/worker_record.h"
#include "proto/state/coordinator_state.pb.h"
#include "proto/v1/checkpoint.pb.h"
#include "proto/v1/coordinator_inputs.pb.h"
#include "proto/v1/coordinator_job.pb.h"
#include "proto/v1/coordinator_progress.pb.h"
#include "proto/v1/coordinator_ranges.pb.h"
#include "proto/v1/coordinator_servers.pb.h"
#include "proto/v1/coordinator_training.pb.h"
#include "proto/v1/coordinator_workers.pb.h"

namespace oarlock::coordinator {

// Thread-safe. What a worker asks under a generation that is not the newest of
// its index, or that is LOST or FAILED, is Aborted; an index beyond the job is
// InvalidArgument. Any call may fail as the log does; nothing is changed
// then.
class Coordinator {
 public:
  // Its term, which grows when another process takes over the job's
  // coordinator. No process does so yet.
  static constexpr uint64_t kTerm = 1;
  // A barrier call is held open at most this long.
  static constexpr absl::Duration kMaxBarrierWait = absl::Seconds(60);

  // `clock` must outlive this.
  Coordinator(const CoordinatorOptions& options, const Clock& clock);
  // Answers what waits, as Shutdown does.
  ~Coordinator();

  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  // See proto/v1/coordinator_service.proto for each.
  absl::StatusOr<v1::RegisterWorkerResponse> RegisterWorker(
      const v1::RegisterWorkerRequest& request);
  absl::StatusOr<v1::HeartbeatResponse> Heartbeat(
      const v1::HeartbeatRequest& request);
  absl::Status FinishWorker(const v1::FinishWorkerRequest& request);
  absl::StatusOr<v1::ServerHeartbeatResponse> ServerHeartbeat(
      const v1::ServerHeartbeatRequest& request);
  absl::StatusOr<v1::DefinePhaseResponse> DefinePhase(
      const v1::DefinePhaseRequest& request);
  absl::StatusOr<v1::LeaseRangesResponse> LeaseRanges(
      const v1::LeaseRangesRequest& request);
  absl::Status ReportEvaluation(const v1::ReportEvaluationRequest& request);
  absl::Status StopTraining(const v1::StopTrainingRequest& request);
  absl::StatusOr<v1::BeginEpochResponse> BeginEpoch(
      const v1::BeginEpochRequest& request);
  absl::Status RecordFile(const v1::RecordFileRequest& request);
  v1::ListFilesResponse ListFiles(const v1::ListFilesRequest& request) const;
  bool training_stopped() const;
  absl::StatusOr<v1::DefineFeaturesResponse> DefineFeatures(
      const v1::DefineFeaturesRequest& request);
  absl::Status DefineInput(const v1::DefineInputRequest& request);
  absl::StatusOr<v1::GetInputResponse> GetInput(
      const v1::GetInputRequest& request);
  v1::JobStatusResponse JobStatus(const v1::JobStatusRequest& request) const;

  // Calls `done` once, from this thread or another: OK when all workers that
  // are waited for have come, Unavailable after the request's `wait_ms`.
  void Barrier(const v1::BarrierRequest& request, Barriers::Done done);

  // The same for steps (ssp): OK, with what is known then, also after the
  // request's `wait_ms`, and once the job is being ended. No log has it.
  void StepClock(const v1::StepClockRequest& request, StepClocks::Done done);

  // Cuts, for whoever makes checkpoints; one thread at a time.
  //
  // Opens the next cut: workers learn it from now on. FailedPrecondition when
  // the job is being ended; Unavailable while it is open what becomes of
  // pushes of a worker that died, mostly about a second.
  absl::StatusOr<uint64_t> OpenCut();
  // 0: none is open.
  uint64_t open_cut() const;
  // Sync: the open cut ends with this round.
  void SetCutRound(uint64_t round);
  // Waits until all workers have marked the open cut. DeadlineExceeded, naming
  // one that has not, when `timeout` ends on `clock`; Unavailable at a
  // shutdown and when the job fails; Aborted when one died that had examples:
  // another cut can be made soon.
  absl::Status AwaitMarks(const Clock& clock, absl::Duration timeout);
  // What belongs to the open cut: fills cut, logical_time, next_generation,
  // works, phases, description.
  void DescribeCut(v1::CheckpointManifest* manifest) const;
  // The open cut is over.
  void CloseCut();
  // Waits until a server wants a checkpoint, `deadline` on `clock`, or
  // WakeCheckpoints.
  void AwaitCheckpointDue(const Clock& clock, absl::Time deadline);
  void WakeCheckpoints();
  absl::Status MarkCut(const v1::MarkCutRequest& request);
  // Cuts get numbers beyond this one.
  void SkipCuts(uint64_t largest);
  // Goes on from a checkpoint. REQUIRES: nobody has called anything yet.
  void Restore(const v1::CheckpointManifest& manifest);
  // Begins with the parameters of another job's checkpoint, and with its
  // logical time. REQUIRES: nobody has called anything yet.
  void BeginWith(const v1::CheckpointManifest& loaded);

  // For a successor of this coordinator, see coordinator/log/coordinator_log.h.
  //
  // Takes the state over from a coordinator of the same job. DataLoss when it
  // had another number of servers. REQUIRES: nobody has called anything yet.
  absl::Status Load(const v1::CoordinatorState& state);
  // DataLoss when what was taken over had another number of workers. ResumeRun
  // needs the same, BeginRun does not.
  absl::Status CheckNumWorkers() const;
  // Does again what that one did, at the time at which it did.
  void Replay(const v1::CoordinatorCall& call);
  // All is done again: the time that was lost counts on nobody's lease.
  void ResumeRun();
  // All is done again, but every other process of the job is new, too.
  void BeginRun();
  // Writes to `log`, which outlives this, the state now and all calls from
  // now on. Once, before anybody calls.
  absl::Status SetLog(CallLog* log);
  // Writes the state, so that the log gets shorter.
  absl::Status WriteState();
  v1::CoordinatorState Save() const;

  // Somebody asked for the job's end.
  absl::Status Drain(const std::string& reason);
  // This process was asked to stop: unless it is over, the job fails.
  void Stop(const std::string& reason);
  // A job that is being ended does not wait for workers: none is left.
  void EndWithoutWorkers();

  // Lets time go by: leases, graces and waits that ran out. To be called every
  // tenth of the lease or so.
  void CheckDeadlines();

  // Of the job, not of a run of a job that stays.
  JobState Job() const;
  // Every server but `self` that is alive knows that the job is over, and every
  // worker that it has finished.
  bool OthersKnowItIsOver(ServerIndex self) const;

  // Of a job that stays: all servers are to go back to the newest cut, this one
  // last (coordinator_roll_back.cc); the run; the generation of each server, 0
  // where it is not known.
  bool rolls_back() const;
  // What workers are told of it.
  std::string roll_back() const;
  uint64_t run() const;
  std::vector<uint64_t> ServerGenerations() const;

  // Answers all waiting barrier calls with Unavailable, later ones at once.
  void Shutdown();

 private:
  using Replies = std::vector<Barriers::Reply>;

  // With their indices, none of them registered.
  static std::vector<WorkerRecord> NewWorkers(uint32_t count);
  v1::CoordinatorState SaveLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // This much of the time counts on nobody's lease and wait. Below 0: the clock
  // was set back.
  void SkipTime(absl::Duration gap) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A successor that begins with an earlier epoch than the one whose members
  // meet now would let them wait for ever: it waits there for their rounds, or
  // steps, and they are members already. It counts as having come.
  void ExcuseFromLaterMembers(const WorkerRecord& worker, WorkerIndex index)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<v1::ServerHeartbeatResponse> ServerHeartbeatLocked(
      const v1::ServerHeartbeatRequest& request, Replies* replies)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The worker of that index under its newest generation.
  absl::StatusOr<WorkerRecord*> Check(uint32_t index, uint64_t generation)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // FailedPrecondition while the job is being ended.
  absl::Status CheckGoesOn() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What it reports of an evaluation counts for good once its leases are told
  // done, since others predict them again if it dies before.
  void AddProgress(const WorkerRecord& worker,
                   const v1::PhaseProgress& progress, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The generation takes no more part: withdraws it from barriers and cuts,
  // and gives what it had to others when it is safe.
  void Withdraw(const WorkerRecord& worker, const absl::Status& why,
                Replies* replies) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Ends the job before its time; the first reason stays.
  void End(bool failed, std::string reason, absl::Time now, Replies* replies)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status EndJob(const v1::JobEnd& end);
  // By worker: whether a barrier needs it.
  std::vector<bool> WaitedFor() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether what was due after the epoch that ends with this barrier is
  // evicted; the first call has the tick. True of other barriers.
  bool EvictedAfter(absl::string_view barrier)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FailIfDeadlocked(absl::Time now, Replies* replies)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A registration in the run that goes on, and what both kinds come to: the
  // worker takes part.
  absl::StatusOr<v1::RegisterWorkerResponse> RegisterInRun(
      const v1::RegisterWorkerRequest& request, Replies* replies)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  v1::RegisterWorkerResponse Admit(const v1::RegisterWorkerRequest& request,
                                   absl::Time now, Replies* replies)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Runs of a job that stays.
  //
  // Whether this registration begins the next run, or why it may not take part
  // in this one. Unavailable while something of the run before is open.
  absl::StatusOr<bool> BeginsRun(const v1::RegisterWorkerRequest& request) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // finished_runs_, with the present run if that counts as finished as it is.
  std::deque<std::string> FinishedRuns() const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void BeginNextRun(const v1::RegisterWorkerRequest& first)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Nobody of the run is left, nor comes back: it is over.
  void EndRunIfLeft(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint32_t SizeOfRun(const v1::RegisterWorkerRequest& request) const {
    return request.min_workers() == 0 ? options_.num_workers
                                      : request.min_workers();
  }
  // Why what this worker has left cannot be completed by others; empty: it can.
  std::string WhyNotToComplete(const DeadWorkers::Claimed& dead) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The run is over, and the servers are to go back.
  void RollBack(const std::string& reason, absl::Time now, Replies* replies)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Unavailable.
  absl::Status CheckDoesNotRollBack() const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The state of the job, where job_ is that of the run.
  JobState JobLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // FailedPrecondition when a worker's model is not that of the parameters that
  // the job goes on with.
  absl::Status CheckModel(const v1::RegisterWorkerRequest& request) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FailIfTooLate(absl::Time now, Replies* replies)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // After any change: passes barriers, recovers dead workers, notices the end.
  void Reconcile(absl::Time now, Replies* replies)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RecoverWorkers(absl::Time now, Replies* replies)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RecoverWorker(DeadWorkers::Claimed claimed)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Unavailable while pushes of a worker that died may be partly applied.
  absl::Status CheckWorkersAreRecovered() const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Number of epochs that are over.
  uint32_t TrainedEpochs() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // REQUIRES: the lock is not held.
  static void Run(Replies replies);
  static void Append(std::vector<StepClocks::Reply> steps, Replies* replies);

  const CoordinatorOptions options_;
  const Clock& clock_;
  const absl::Time start_;

  // Held while a state is written.
  absl::Mutex write_mutex_ ABSL_ACQUIRED_BEFORE(mutex_);

  mutable absl::Mutex mutex_;
  // By index.
  std::vector<WorkerRecord> workers_ ABSL_GUARDED_BY(mutex_);
  ServerRecords servers_ ABSL_GUARDED_BY(mutex_);
  // Of the first worker that it registers; the Unix milliseconds at its start.
  const uint64_t first_generation_;
  // Both begin with it, so that they grow across restarts.
  uint64_t next_generation_ ABSL_GUARDED_BY(mutex_);
  uint64_t workers_version_ ABSL_GUARDED_BY(mutex_);
  absl::Time first_registration_ ABSL_GUARDED_BY(mutex_) =
      absl::InfiniteFuture();
  absl::Time last_deadline_check_ ABSL_GUARDED_BY(mutex_);
  // Ticks so far, those before the job included, and when the last one was due.
  uint32_t logical_time_ ABSL_GUARDED_BY(mutex_) = 0;
  uint32_t start_time_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Time last_tick_ ABSL_GUARDED_BY(mutex_);
  DeadWorkers dead_workers_ ABSL_GUARDED_BY(mutex_);
  Barriers barriers_ ABSL_GUARDED_BY(mutex_);
  RangeQueue ranges_ ABSL_GUARDED_BY(mutex_);
  CutState cuts_ ABSL_GUARDED_BY(mutex_);
  StepClocks steps_ ABSL_GUARDED_BY(mutex_);
  // Until the next cut is opened.
  bool checkpoint_due_ ABSL_GUARDED_BY(mutex_) = false;
  bool checkpoint_woken_ ABSL_GUARDED_BY(mutex_) = false;
  // Epochs that a checkpoint had as a whole.
  uint32_t trained_epochs_ ABSL_GUARDED_BY(mutex_) = 0;
  // Epochs that were over when the open cut was opened.
  uint32_t epochs_before_cut_ ABSL_GUARDED_BY(mutex_) = 0;
  JobProgress progress_ ABSL_GUARDED_BY(mutex_);
  // What the job trains, as the newest worker that said it did.
  std::optional<v1::JobDescription> description_ ABSL_GUARDED_BY(mutex_);
  // What trained the parameters that the job began with, if it says so.
  std::optional<v1::JobDescription> loaded_ ABSL_GUARDED_BY(mutex_);
  RunSettings settings_ ABSL_GUARDED_BY(mutex_);
  TrainingState training_ ABSL_GUARDED_BY(mutex_);
  JobFeatures features_ ABSL_GUARDED_BY(mutex_);
  InputFiles inputs_ ABSL_GUARDED_BY(mutex_);
  // Of the run, until the job ends; and its number, from 1.
  JobState job_ ABSL_GUARDED_BY(mutex_);
  uint64_t run_ ABSL_GUARDED_BY(mutex_) = 1;
  // As its first worker has named it, and former ones of which a worker has
  // finished: the newest kMaxFinishedRuns.
  std::string run_name_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::string> finished_runs_ ABSL_GUARDED_BY(mutex_);
  // What they were when the newest cut was opened.
  std::deque<std::string> finished_runs_of_cut_ ABSL_GUARDED_BY(mutex_);
  v1::RegisterWorkerRequest::OnDeath on_death_ ABSL_GUARDED_BY(mutex_) =
      v1::RegisterWorkerRequest::ON_DEATH_UNSPECIFIED;
  // What workers are told; empty: the servers do not go back.
  std::string roll_back_ ABSL_GUARDED_BY(mutex_);
  // Somebody asked for the end of a job that stays.
  bool ends_for_good_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time ending_since_ ABSL_GUARDED_BY(mutex_);
  bool without_workers_ ABSL_GUARDED_BY(mutex_) = false;
  bool shut_down_ ABSL_GUARDED_BY(mutex_) = false;
  CallLogger calls_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace oarlock::coordinator

#endif  // OARLOCK_COORDINATOR_COORDINATOR_H_
