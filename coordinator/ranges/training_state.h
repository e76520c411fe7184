// The coordinator's record of a job's training besides ranges: the
// evaluations, whether training was stopped, which epochs were begun, and which
// files an online job trains in them.

#ifndef OARLOCK_COORDINATOR_RANGES_TRAINING_STATE_H_
#define OARLOCK_COORDINATOR_RANGES_TRAINING_STATE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "proto/state/coordinator_state.pb.h"
#include "proto/v1/checkpoint.pb.h"
#include "proto/v1/coordinator_job.pb.h"
#include "proto/v1/coordinator_training.pb.h"

namespace oarlock::coordinator {

// Not thread-safe: the coordinator guards it.
//
// Invariants:
// 1. A stop is never taken back within a run, and the first reason stays.
// 2. Whether an epoch begins is decided once; all callers get the same
//    response.
// 3. Files have the epochs 0, 1, 2 ... No two files have the same name. A file
//    is added only when all before it are trained, so at most the last one is
//    not trained.
class TrainingState {
 public:
  static constexpr size_t kMaxEvaluations = 4096;
  // With names of kMaxNameBytes they fit into a manifest.
  static constexpr size_t kMaxFiles = 1 << 17;
  // Of one response to ListFiles.
  static constexpr size_t kMaxListedFiles = 4096;
  static constexpr size_t kMaxNameBytes = 255;
  // Files of a folder that is an epoch's data.
  static constexpr int kMaxParts = 10000;
  // The newest epochs have theirs: a cut may lack the end of the one before the
  // newest, and no older one's.
  static constexpr size_t kEpochsWithParts = 4;
  static constexpr size_t kMaxReasonBytes = 1024;

  // InvalidArgument for names that are empty or too long; AlreadyExists when
  // this run has another one of the same phase, which ended at another time.
  absl::Status CheckEvaluation(const v1::Evaluation& evaluation) const;
  // Adds an evaluation. One that is reported again replaces its earlier report.
  // Beyond kMaxEvaluations the oldest is dropped. REQUIRES:
  // CheckEvaluation(evaluation) is OK.
  void Report(const v1::Evaluation& evaluation);

  void Stop(const std::string& reason);
  bool stopped() const { return stopped_; }

  bool Begin(uint32_t epoch);

  // Checks what RecordFile in proto/v1/coordinator_service.proto requires,
  // except whether the whole file is trained: the caller checks that.
  absl::Status CheckFile(const v1::TrainingFile& file) const;
  // REQUIRES: CheckFile(file) is OK.
  void RecordFile(const v1::TrainingFile& file);
  // The epochs before this one are wholly trained.
  uint32_t num_trained_files() const;
  const std::vector<v1::TrainingFile>& files() const { return files_; }

  void Describe(v1::JobStatusResponse* status) const;
  // Fills in this part of a checkpoint's manifest. The cut has all of the
  // epochs before `trained_epochs`.
  void DescribeCut(uint32_t trained_epochs,
                   v1::CheckpointManifest* manifest) const;
  void Restore(const v1::CheckpointManifest& manifest);

  // All workers are new: training is not stopped, and all workers begin again
  // at the epochs that are left.
  void BeginRun();

  void Save(v1::SavedTrainingState* state) const;
  // Replaces what is there.
  void Load(const v1::SavedTrainingState& state);

 private:
  void SetFiles(std::vector<v1::TrainingFile> files);
  // Index of this run's evaluation of the phase; evaluations_.size(): there is
  // none.
  size_t FindEvaluation(const std::string& phase_name) const;

  std::deque<v1::Evaluation> evaluations_;
  // The first evaluations are from earlier runs. An epoch that an earlier run
  // cut short is evaluated again when it is trained to its end.
  size_t num_former_evaluations_ = 0;
  bool stopped_ = false;
  std::string stop_reason_;
  // Epochs below this number were begun.
  uint32_t begun_epochs_ = 0;
  std::vector<v1::TrainingFile> files_;
  std::set<std::string> names_;
};

}  // namespace oarlock::coordinator

#endif  // OARLOCK_COORDINATOR_RANGES_TRAINING_STATE_H_
