// The coordinator's part in evaluations, stopping, and online training.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "coordinator/coordinator.h"
#include "coordinator/ranges/train_phase.h"
#include "coordinator/truncated.h"

namespace oarlock::coordinator {

absl::Status Coordinator::ReportEvaluation(
    const v1::ReportEvaluationRequest& request) {
  absl::MutexLock lock(&mutex_);
  OARLOCK_RETURN_IF_ERROR(
      Check(request.worker_index(), request.worker_generation()).status());
  OARLOCK_RETURN_IF_ERROR(training_.CheckEvaluation(request.evaluation()));
  OARLOCK_RETURN_IF_ERROR(calls_
                              .Begin([&](auto* call) {
                                *call->mutable_report_evaluation() = request;
                              })
                              .status());
  training_.Report(request.evaluation());
  return absl::OkStatus();
}

absl::Status Coordinator::StopTraining(const v1::StopTrainingRequest& request) {
  absl::MutexLock lock(&mutex_);
  if (training_.stopped()) return absl::OkStatus();
  OARLOCK_RETURN_IF_ERROR(
      calls_
          .Begin([&](auto* call) { *call->mutable_stop_training() = request; })
          .status());
  training_.Stop(Truncated(request.reason()));
  Log().info("training is stopped: {}", Truncated(request.reason()));
  return absl::OkStatus();
}

bool Coordinator::training_stopped() const {
  absl::MutexLock lock(&mutex_);
  return training_.stopped();
}

absl::StatusOr<v1::BeginEpochResponse> Coordinator::BeginEpoch(
    const v1::BeginEpochRequest& request) {
  absl::MutexLock lock(&mutex_);
  OARLOCK_RETURN_IF_ERROR(
      calls_.Begin([&](auto* call) { *call->mutable_begin_epoch() = request; })
          .status());
  v1::BeginEpochResponse response;
  response.set_begins(training_.Begin(request.epoch()));
  return response;
}

absl::Status Coordinator::RecordFile(const v1::RecordFileRequest& request) {
  absl::MutexLock lock(&mutex_);
  OARLOCK_RETURN_IF_ERROR(
      Check(request.worker_index(), request.worker_generation()).status());
  const v1::TrainingFile& file = request.file();
  OARLOCK_RETURN_IF_ERROR(training_.CheckFile(file));
  // A stopped epoch keeps the ranges that are left in the queue. An epoch that
  // workers split by themselves has no ranges there.
  const std::string phase_name = TrainPhaseName(file.epoch());
  if (file.trained() &&
      (!ranges_.IsAllDone(phase_name) ||
       (training_.stopped() && !ranges_.HadRanges(phase_name)))) {
    return absl::FailedPreconditionError(absl::StrCat(
        "file '", file.file(), "' of epoch ", file.epoch(),
        " is not wholly trained; the rest is trained when the job goes on"));
  }
  OARLOCK_RETURN_IF_ERROR(
      calls_.Begin([&](auto* call) { *call->mutable_record_file() = request; })
          .status());
  training_.RecordFile(file);
  return absl::OkStatus();
}

v1::ListFilesResponse Coordinator::ListFiles(
    const v1::ListFilesRequest& request) const {
  absl::MutexLock lock(&mutex_);
  v1::ListFilesResponse response;
  const std::vector<v1::TrainingFile>& files = training_.files();
  const size_t end = std::min(
      files.size(), request.first_epoch() + TrainingState::kMaxListedFiles);
  for (size_t i = request.first_epoch(); i < end; ++i) {
    *response.add_files() = files[i];
  }
  response.set_training_stopped(training_.stopped());
  return response;
}

}  // namespace oarlock::coordinator
