// A worker's client of the coordinator: its place in the job, ranges, barriers,
// and reports.

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
#include "cluster/wire_version.h"
#include "data/order/example_intervals.h"
#include "data/range_source.h"
#include "proto/v1/coordinator_inputs.pb.h"
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
  // The push that is to be completed. Not set: what is missing goes in pushes
  // of the worker's own.
  std::optional<PushStamp> push;
  // Rows need gradients of these examples; if `push` is set, all in one push.
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
  // Returns the progress since its last call. The heartbeat calls it.
  using ProgressSource = absl::AnyInvocable<std::vector<v1::PhaseProgress>()>;

  // Gets the newest cut that heartbeats have named and, in sync mode, the round
  // with which it ends (0: not known yet). Must not block.
  using CutObserver = std::function<void(uint64_t cut, uint64_t round)>;

  static constexpr uint64_t kUnlimitedSteps = ~uint64_t{0};

  virtual ~JobClient() = default;

  virtual WorkerIndex worker_index() const = 0;
  virtual uint32_t num_workers() const = 0;

  // Reports are collected from `source` from now on until Finish.
  virtual void SetProgressSource(ProgressSource source) = 0;
  // Collects and sends a report now, so that a later GetJobStatus includes it.
  virtual absl::Status Report() = 0;

  // Whether cuts may be opened: the job has a checkpoint directory.
  virtual bool takes_cuts() const { return false; }
  // The newest cut when this worker registered: its pushes begin after it.
  virtual uint64_t first_cut() const { return 0; }
  // Number of epochs that were wholly trained when this worker registered, in
  // an earlier run from which the job was resumed.
  virtual uint32_t trained_epochs() const { return 0; }
  // Number of epochs of which an earlier incarnation of this worker trained its
  // share in this run of the job: it called WaitForTrained after them. 0: this
  // is the first incarnation, or the earlier one died in the first epoch of the
  // run.
  virtual uint32_t own_trained_epochs() const { return 0; }
  // Each heartbeat calls `observer` from now on; an earlier observer is not
  // called any more. Null: none.
  virtual void SetCutObserver(CutObserver observer) = 0;
  // Reports that everything that this worker pushed before `cut` is applied on
  // all servers. `trained`: the examples of these pushes that were not reported
  // before. A repeated report is harmless. `cut` may be one beyond the newest:
  // then the worker promises to push nothing more before that cut, except what
  // it has reported.
  virtual absl::Status MarkCut(
      uint64_t cut, const std::vector<v1::TrainedExamples>& trained) = 0;

  // Returns when all live workers have called it with this name. Aborted when
  // this worker was fenced.
  virtual absl::Status Barrier(const std::string& name) = 0;
  // Barrier("train/EPOCH/trained"): this worker's share of the epochs up to
  // `epoch` is trained, and its pushes are acknowledged. So it counts as
  // arrived even if it dies, and its successor's own_trained_epochs() is
  // larger.
  virtual absl::Status WaitForTrained(uint32_t epoch) {
    return Barrier(AfterTraining(epoch));
  }

  // Sync: takes part in every round from the next one on. Returns the number of
  // complete rounds (the same on all servers once all workers have joined).
  virtual absl::StatusOr<uint64_t> JoinRounds() = 0;
  virtual absl::Status LeaveRounds() = 0;

  // ssp: from now on this worker counts steps, and others wait for it. Returns
  // the number of steps that it begins with.
  virtual absl::StatusOr<uint64_t> JoinSteps() { return 0; }
  // This worker has finished `finished` steps. Returns how many steps every
  // worker that counts steps has finished, as soon as this is at least
  // `awaited` or a while has passed. kUnlimitedSteps: no worker has to wait.
  // From any thread, in any order.
  virtual absl::StatusOr<uint64_t> ReportSteps(uint64_t finished,
                                               uint64_t awaited) {
    return kUnlimitedSteps;
  }
  // REQUIRES: no ReportSteps is running, and none is called before JoinSteps.
  virtual absl::Status LeaveSteps() { return absl::OkStatus(); }

  // Every worker may define the same phase, in the same way. `order`: as in
  // DefinePhaseRequest. For a phase without items, returns the examples that
  // were trained already.
  virtual absl::StatusOr<data::ExampleIntervals> DefinePhase(
      const std::string& phase_name, const std::vector<data::DataRange>& items,
      uint64_t num_examples, const std::string& order) = 0;
  // At most `max_items` items and push completions, together. If there are
  // none, and the phase is not exhausted: call again soon.
  virtual absl::StatusOr<Leases> LeaseRanges(
      const std::string& phase_name, uint32_t max_items,
      const std::vector<uint64_t>& done_leases) = 0;

  virtual absl::StatusOr<v1::JobStatusResponse> GetJobStatus() = 0;

  // Has the servers make a checkpoint; returns when it is current.
  // FailedPrecondition where the job makes none.
  virtual absl::Status Checkpoint() = 0;
  // The same; the checkpoint stays until the next one that is the best. Returns
  // its folder.
  virtual absl::StatusOr<std::string> CheckpointBest() {
    const absl::Status made = Checkpoint();
    if (!made.ok()) return made;
    return std::string();
  }

  // proto/v1/coordinator_service.proto describes what follows.
  virtual absl::Status ReportEvaluation(const v1::Evaluation& evaluation) {
    return absl::OkStatus();
  }
  virtual absl::Status StopTraining(const std::string& reason) {
    return absl::OkStatus();
  }
  // Whether training is stopped, as far as responses have shown.
  virtual bool training_stopped() const { return false; }
  virtual absl::StatusOr<bool> BeginEpoch(uint32_t epoch) { return true; }
  virtual absl::Status RecordFile(const v1::TrainingFile& file) {
    return absl::OkStatus();
  }
  virtual absl::StatusOr<v1::ListFilesResponse> ListFiles(
      uint32_t first_epoch) {
    return v1::ListFilesResponse();
  }
  // The features with their numbers.
  virtual absl::StatusOr<v1::FeatureList> DefineFeatures(
      const v1::FeatureList& features) {
    return absl::UnimplementedError("this client numbers no features");
  }
  // Sends all files of an input, in parts.
  virtual absl::Status DefineInput(const std::string& name,
                                   const std::vector<v1::ListedFile>& files) {
    return absl::UnimplementedError("this client knows of no inputs");
  }
  struct Input {
    std::vector<v1::ListedFile> files;
    v1::FeatureList features;
  };
  // NotFound: not all of it is defined yet.
  virtual absl::StatusOr<Input> GetInput(const std::string& name) {
    return absl::UnimplementedError("this client knows of no inputs");
  }

  // Not OK once the coordinator has fenced this worker or the job is ending:
  // training stops at the next batch.
  virtual absl::Status Alive() const = 0;

  // Ends this worker's part in the job. `outcome` not OK: it gives up.
  virtual absl::Status Finish(const absl::Status& outcome) = 0;

 protected:
  // Name of the barrier after an epoch.
  static std::string AfterTraining(uint32_t epoch) {
    return absl::StrCat("train/", epoch, cluster::kTrainedBarrier);
  }
};

}  // namespace oarlock::client

#endif  // OARLOCK_CLIENT_JOB_CLIENT_H_
