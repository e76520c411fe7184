// What a job's training is up to beyond the ranges of its phases: what
// evaluations have said, whether it was stopped, which epochs were begun, and
// which files an online job trains in them.

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
// 2. Whether an epoch begins is decided once; all who ask hear the same.
// 3. Files have the epochs 0, 1, 2 ...; no two have one name; one is added when
//    all before it are trained, so at most the last one is not.
class TrainingState {
 public:
  static constexpr size_t kMaxEvaluations = 4096;
  // With names of kMaxNameBytes they fit into a manifest.
  static constexpr size_t kMaxFiles = 1 << 17;
  // Of one response to ListFiles.
  static constexpr size_t kMaxListedFiles = 4096;
  static constexpr size_t kMaxNameBytes = 255;
  static constexpr size_t kMaxReasonBytes = 1024;

  // InvalidArgument for names that are empty or too long; AlreadyExists when
  // this run has another one of the same phase, which ended at another time.
  absl::Status CheckEvaluation(const v1::Evaluation& evaluation) const;
  // One that is told again takes its own place; beyond kMaxEvaluations the
  // oldest goes. REQUIRES: CheckEvaluation(evaluation) is OK.
  void Report(const v1::Evaluation& evaluation);

  void Stop(const std::string& reason);
  bool stopped() const { return stopped_; }

  bool Begin(uint32_t epoch);

  // See RecordFile in proto/v1/coordinator_service.proto, but for whether all
  // of it is trained, which the caller knows.
  absl::Status CheckFile(const v1::TrainingFile& file) const;
  // REQUIRES: CheckFile(file) is OK.
  void RecordFile(const v1::TrainingFile& file);
  // The epochs before this one are wholly trained.
  uint32_t num_trained_files() const;
  const std::vector<v1::TrainingFile>& files() const { return files_; }

  void Describe(v1::JobStatusResponse* status) const;
  // The part of a checkpoint whose cut has all of the epochs before
  // `trained_epochs`.
  void DescribeCut(uint32_t trained_epochs,
                   v1::CheckpointManifest* manifest) const;
  void Restore(const v1::CheckpointManifest& manifest);

  // All workers are new: nothing is stopped, and all begin again at the epochs
  // that are left.
  void BeginRun();

  void Save(v1::SavedTrainingState* state) const;
  // Takes the place of what is there.
  void Load(const v1::SavedTrainingState& state);

 private:
  void SetFiles(std::vector<v1::TrainingFile> files);
  // Of this run; evaluations_.size(): there is none.
  size_t FindEvaluation(const std::string& phase_name) const;

  std::deque<v1::Evaluation> evaluations_;
  // The first ones are of runs before this one: an epoch that was cut short
  // then is evaluated again when it has been trained to its end.
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
