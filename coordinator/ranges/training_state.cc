#include "coordinator/ranges/training_state.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace oarlock::coordinator {

size_t TrainingState::FindEvaluation(const std::string& phase_name) const {
  size_t i = num_former_evaluations_;
  while (i < evaluations_.size() && evaluations_[i].work() != phase_name) ++i;
  return i;
}

absl::Status TrainingState::CheckEvaluation(
    const v1::Evaluation& evaluation) const {
  if (evaluation.work().empty() || evaluation.work().size() > kMaxNameBytes ||
      evaluation.file().size() > kMaxNameBytes ||
      evaluation.checkpoint().size() > kMaxReasonBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "evaluation whose phase name has ", evaluation.work().size(),
        " bytes and whose file has a name of ", evaluation.file().size(),
        "; legal are 1 to ", kMaxNameBytes, " and 0 to ", kMaxNameBytes,
        "; name it \"test/0\""));
  }
  const size_t known = FindEvaluation(evaluation.work());
  if (known < evaluations_.size() &&
      evaluations_[known].unix_seconds() != evaluation.unix_seconds()) {
    return absl::AlreadyExistsError(absl::StrCat(
        "evaluation '", evaluation.work(),
        "' was told before, of another time; each is told once in a run"));
  }
  return absl::OkStatus();
}

void TrainingState::Report(const v1::Evaluation& evaluation) {
  const size_t known = FindEvaluation(evaluation.work());
  if (known < evaluations_.size()) {
    evaluations_[known] = evaluation;
    return;
  }
  if (evaluations_.size() == kMaxEvaluations) {
    evaluations_.pop_front();
    if (num_former_evaluations_ > 0) --num_former_evaluations_;
  }
  evaluations_.push_back(evaluation);
}

void TrainingState::Stop(const std::string& reason) {
  if (stopped_) return;
  stopped_ = true;
  stop_reason_ = reason.substr(0, kMaxReasonBytes);
}

bool TrainingState::Begin(uint32_t epoch) {
  if (epoch < begun_epochs_) return true;
  if (stopped_) return false;
  begun_epochs_ = epoch + 1;
  return true;
}

absl::Status TrainingState::CheckFile(const v1::TrainingFile& file) const {
  if (file.file().empty() || file.file().size() > kMaxNameBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "file of epoch ", file.epoch(), " whose name has ", file.file().size(),
        " bytes; legal are 1 to ", kMaxNameBytes));
  }
  if (file.parts_size() > kMaxParts) {
    return absl::InvalidArgumentError(absl::StrCat(
        "folder '", file.file(), "' of epoch ", file.epoch(), " has ",
        file.parts_size(), " files; legal are up to ", kMaxParts));
  }
  for (const std::string& part : file.parts()) {
    if (!part.empty() && part.size() <= kMaxNameBytes &&
        part.find('/') == std::string::npos) {
      continue;
    }
    return absl::InvalidArgumentError(
        absl::StrCat("folder '", file.file(), "' of epoch ", file.epoch(),
                     " has a file '", part, "'; legal are names of 1 to ",
                     kMaxNameBytes, " bytes without a folder"));
  }
  if (file.epoch() < files_.size()) {
    const v1::TrainingFile& known = files_[file.epoch()];
    if (known.file() == file.file()) return absl::OkStatus();
    return absl::AlreadyExistsError(absl::StrCat(
        "epoch ", file.epoch(), " trains file '", known.file(), "', not '",
        file.file(), "'; ask which files were begun first"));
  }
  if (file.epoch() > files_.size() || num_trained_files() < files_.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "epoch ", file.epoch(), " is to train file '", file.file(), "', but ",
        files_.size(), " were begun and ", num_trained_files(),
        " are trained; the next one begins when all before it are"));
  }
  if (names_.contains(file.file())) {
    return absl::AlreadyExistsError(absl::StrCat(
        "file '", file.file(),
        "' was trained before; each is trained once, by its name"));
  }
  if (stopped_) {
    return absl::FailedPreconditionError(
        absl::StrCat("training is stopped: ", stop_reason_));
  }
  if (files_.size() == kMaxFiles) {
    return absl::ResourceExhaustedError(
        absl::StrCat(kMaxFiles,
                     " files were trained, and no more names are kept; begin a "
                     "new job with --load and another folder"));
  }
  return absl::OkStatus();
}

void TrainingState::RecordFile(const v1::TrainingFile& file) {
  if (file.epoch() == files_.size()) {
    files_.push_back(file);
    names_.insert(file.file());
    if (files_.size() > kEpochsWithParts) {
      files_[files_.size() - 1 - kEpochsWithParts].clear_parts();
    }
  } else if (file.trained()) {
    files_[file.epoch()].set_trained(true);
  }
}

uint32_t TrainingState::num_trained_files() const {
  const size_t count = files_.size();
  return static_cast<uint32_t>(count > 0 && !files_.back().trained() ? count - 1
                                                                     : count);
}

void TrainingState::Describe(v1::JobStatusResponse* status) const {
  status->mutable_evaluations()->Add(evaluations_.begin(), evaluations_.end());
  status->set_training_stopped(stopped_);
  status->set_stop_reason(stop_reason_);
  if (files_.empty()) return;
  *status->mutable_newest_file() = files_.back();
  status->mutable_newest_file()->clear_parts();
}

void TrainingState::DescribeCut(uint32_t trained_epochs,
                                v1::CheckpointManifest* manifest) const {
  manifest->mutable_evaluations()->Add(evaluations_.begin(),
                                       evaluations_.end());
  for (const v1::TrainingFile& file : files_) {
    v1::TrainingFile* const saved = manifest->add_files();
    *saved = file;
    // What is recorded may not fit the cut. The file may have ended since, with
    // pushes after the cut. Or all of its pushes are before the cut, but its
    // end is not recorded yet.
    saved->set_trained(file.epoch() < trained_epochs);
    // No pushes of later files are before the cut.
    if (!saved->trained()) return;
    saved->clear_parts();
  }
}

void TrainingState::Restore(const v1::CheckpointManifest& manifest) {
  evaluations_.assign(manifest.evaluations().begin(),
                      manifest.evaluations().end());
  num_former_evaluations_ = evaluations_.size();
  SetFiles({manifest.files().begin(), manifest.files().end()});
}

void TrainingState::BeginRun() {
  stopped_ = false;
  stop_reason_.clear();
  begun_epochs_ = 0;
  num_former_evaluations_ = evaluations_.size();
}

void TrainingState::Save(v1::SavedTrainingState* state) const {
  state->mutable_evaluations()->Add(evaluations_.begin(), evaluations_.end());
  state->set_stopped(stopped_);
  state->set_stop_reason(stop_reason_);
  state->mutable_files()->Add(files_.begin(), files_.end());
  state->set_begun_epochs(begun_epochs_);
  state->set_num_former_evaluations(
      static_cast<uint32_t>(num_former_evaluations_));
}

void TrainingState::Load(const v1::SavedTrainingState& state) {
  evaluations_.assign(state.evaluations().begin(), state.evaluations().end());
  stopped_ = state.stopped();
  stop_reason_ = state.stop_reason();
  begun_epochs_ = state.begun_epochs();
  num_former_evaluations_ =
      std::min<size_t>(state.num_former_evaluations(), evaluations_.size());
  SetFiles({state.files().begin(), state.files().end()});
}

void TrainingState::SetFiles(std::vector<v1::TrainingFile> files) {
  files_ = std::move(files);
  names_.clear();
  for (const v1::TrainingFile& file : files_) names_.insert(file.file());
}

}  // namespace oarlock::coordinator
