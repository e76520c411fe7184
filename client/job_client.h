// What a worker asks of the coordinator: its place in the job, ranges,
// barriers, and somebody to report to.

#ifndef OARLOCK_CLIENT_JOB_CLIENT_H_
#define OARLOCK_CLIENT_JOB_CLIENT_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/push_stamp.h"
#include "base/types.h"
#include "data/order/example_intervals.h"
#include "data/range_source.h"
#include "proto/v1/coordinator_job.pb.h"
#include "proto/v1/coordinator_progress.pb.h"
#include "proto/v1/coordinator_ranges.pb.h"
#include "proto/v1/coordinator_training.pb.h"

namespace oarlock::client {

// Examples of a dead worker whose gradients are partly applied; see
// proto/v1/coordinator_ranges.proto.
struct PushCompletion {
  // Number of the lease.
  uint64_t lease = 0;
  // The push that is to be completed; not set: what is missing goes in pushes
  // of the worker's own.
  std::optional<PushStamp> push;
  // Rows need gradients of these examples, with a name in one push.
  std::vector<data::DataRange> examples;
  // Dense parameters need gradients of these.
  std::vector<data::DataRange> dense_examples;
};

struct Leases {
  std::vector<data::DataRange> items;
  std::vector<PushCompletion> push_completions;
  // Nothing is left, and nothing will come back.
  bool exhausted = false;
};

// Thread-safe. Calls block; they retry while a server is away, up to the
// client's time limit.
class JobClient {
 public:
  // Returns what happened since it was called last; called by the heartbeat.
  using ProgressSource = absl::AnyInvocable<std::vector<v1::PhaseProgress>()>;

  // Told the newest cut that heartbeats have named and, in sync mode, the round
  // with which it ends (0: not known yet). Must not block.
  using CutObserver = std::function<void(uint64_t cut, uint64_t round)>;

  static constexpr uint64_t kUnlimitedSteps = ~uint64_t{0};

  virtual ~JobClient() = default;

  virtual WorkerIndex worker_index() const = 0;
  virtual uint32_t num_workers() const = 0;

  // Reports are collected from `source` from now on until Finish.
  virtual void SetProgressSource(ProgressSource source) = 0;
  // Collects and sends a report now, so that a status asked for next has it.
  virtual absl::Status Report() = 0;

  // Whether cuts may be opened: the job has a checkpoint directory.
  virtual bool takes_cuts() const { return false; }
  // The newest cut when this worker registered: its pushes begin after it.
  virtual uint64_t first_cut() const { return 0; }
  // Epochs that were wholly trained when it registered: the job was resumed.
  virtual uint32_t trained_epochs() const { return 0; }
  // Epochs after which an incarnation before this one has met, or was
  // about to, in this run of the job. 0: this is the first one, or the one
  // before died in the first epoch of the run.
  virtual uint32_t own_trained_epochs() const { return 0; }
  // `observer` is called with each heartbeat; the one before it is not called
  // any more. Null: nobody.
  virtual void SetCutObserver(CutObserver observer) = 0;
  // Everything that this worker pushed before `cut` is applied on all servers;
  // `trained` are the examples of it that were not told before. Said again is
  // harmless. A number that is one beyond the newest: this worker will push
  // nothing before that cut any more that it has not told.
  virtual absl::Status MarkCut(
      uint64_t cut, const std::vector<v1::TrainedExamples>& trained) = 0;

  // Returns when all live workers have called it with this name. Aborted when
  // this worker was fenced.
  virtual absl::Status Barrier(const std::string& name) = 0;
  // Barrier("train/EPOCH/trained"): this worker's share of the epochs
  // up to `epoch` is trained, and its pushes are acknowledged. So it counts as
  // arrived also if it dies, and its successor's own_trained_epochs() are more.
  virtual absl::Status WaitForTrained(uint32_t epoch) {
    return Barrier(AfterTraining(epoch));
  }

  // Sync: takes part in every round from the next one on. Returns the number
  // of complete rounds (the same on all servers once all workers have joined).
  virtual absl::StatusOr<uint64_t> JoinRounds() = 0;
  virtual absl::Status LeaveRounds() = 0;

  // ssp: this worker counts steps and is waited for from now on. Returns the
  // number that it begins with.
  virtual absl::StatusOr<uint64_t> JoinSteps() { return 0; }
  // It has finished `finished` steps. Returns how many every worker that counts
  // steps has: at once or, with `awaited`, when they are as many or a while has
  // passed. kUnlimitedSteps: nobody is to wait. From any thread, any order.
  virtual absl::StatusOr<uint64_t> ReportSteps(uint64_t finished,
                                               uint64_t awaited) {
    return kUnlimitedSteps;
  }
  // REQUIRES: no ReportSteps is under way, and none comes before JoinSteps.
  virtual absl::Status LeaveSteps() { return absl::OkStatus(); }

  // Every worker may define the same phase in the same way. `order` as
  // DefinePhaseRequest has it. Returns, for a phase without items, the examples
  // that were trained already.
  virtual absl::StatusOr<data::ExampleIntervals> DefinePhase(
      const std::string& phase_name, const std::vector<data::DataRange>& items,
      uint64_t num_examples, const std::string& order) = 0;
  // At most `max_items` items and push completions. None, and not exhausted:
  // ask again soon.
  virtual absl::StatusOr<Leases> LeaseRanges(
      const std::string& phase_name, uint32_t max_items,
      const std::vector<uint64_t>& done_leases) = 0;

  virtual absl::StatusOr<v1::JobStatusResponse> GetJobStatus() = 0;

  // Has the servers make a checkpoint; returns when it is current.
  // FailedPrecondition where the job makes none.
  virtual absl::Status Checkpoint() = 0;
  // The same, and it stays until the next one that is the best. Its folder.
  virtual absl::StatusOr<std::string> CheckpointBest() {
    const absl::Status made = Checkpoint();
    if (!made.ok()) return made;
    return std::string();
  }

  // What follows is told in proto/v1/coordinator_service.proto.
  virtual absl::Status ReportEvaluation(const v1::Evaluation& evaluation) {
    return absl::OkStatus();
  }
  virtual absl::Status StopTraining(const std::string& reason) {
    return absl::OkStatus();
  }
  // Whether training is stopped, as far as this worker has heard.
  virtual bool training_stopped() const { return false; }
  virtual absl::StatusOr<bool> BeginEpoch(uint32_t epoch) { return true; }
  virtual absl::Status RecordFile(const v1::TrainingFile& file) {
    return absl::OkStatus();
  }
  virtual absl::StatusOr<v1::ListFilesResponse> ListFiles(
      uint32_t first_epoch) {
    return v1::ListFilesResponse();
  }

  // Not OK once the coordinator has fenced this worker or the job is ending:
  // training stops at the next batch.
  virtual absl::Status Alive() const = 0;

  // Ends this worker's part in the job. `outcome` not OK: it gives up.
  virtual absl::Status Finish(const absl::Status& outcome) = 0;

 protected:
  // Name of the barrier behind an epoch.
  static std::string AfterTraining(uint32_t epoch) {
    return absl::StrCat("train/", epoch, "/trained");
  }
};

}  // namespace oarlock::client

#endif  // OARLOCK_CLIENT_JOB_CLIENT_H_
