#include "worker/online/online_training.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "data/reader/input_file.h"
#include "worker/config/data_options_of.h"
#include "worker/evaluation/evaluation.h"

namespace oarlock::worker {
namespace {

constexpr WorkerIndex kFirstWorker(0);
// Between two questions whether there is a file, or training is stopped.
constexpr absl::Duration kLongestPoll = absl::Milliseconds(200);
}  // namespace

absl::Status CheckOnlineTraining(const v1::JobConfig& config) {
  if (config.watch_dir().empty()) return absl::OkStatus();
  if (!config.train_files().empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--watch_dir ", config.watch_dir(),
        " says what is trained, and "
        "--train_files ",
        config.train_files(0),
        " does, too; give one of them, or train on the files first and go on "
        "with --load"));
  }
  if (config.epochs() != v1::JobConfig::default_instance().epochs()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--epochs is set, but --watch_dir ", config.watch_dir(),
                     " trains each file once; leave --epochs out"));
  }
  return CheckWatchedSource(config);
}

OnlineTraining::OnlineTraining(const v1::JobConfig& config,
                               client::JobClient* job, Steps steps,
                               const Clocks& clocks)
    : config_(config),
      job_(job),
      steps_(std::move(steps)),
      clocks_(clocks),
      source_(NewWatchedSource(config)),
      last_busy_(clocks_.monotonic->Now()) {}

bool OnlineTraining::IsFirstWorker() const {
  return job_->worker_index() == kFirstWorker;
}

absl::Status OnlineTraining::Run() {
  OARLOCK_ASSIGN_OR_RETURN(uint32_t epoch, LearnFiles());
  if (epoch > 0) Log().info("{} files were trained before", epoch);
  // In this run: this worker takes the place of one that died, and the others
  // may be evaluating the last one.
  if (epoch > job_->trained_epochs()) {
    OARLOCK_RETURN_IF_ERROR(steps_.evaluate(epoch - 1));
  }
  for (;; ++epoch) {
    OARLOCK_ASSIGN_OR_RETURN(const std::optional<v1::TrainingFile> file,
                             NextFile(epoch));
    if (!file.has_value()) return absl::OkStatus();
    OARLOCK_RETURN_IF_ERROR(TrainFile(*file));
    last_busy_ = clocks_.monotonic->Now();
  }
}

absl::StatusOr<uint32_t> OnlineTraining::LearnFiles() {
  uint32_t trained = 0;
  for (uint32_t next = 0;;) {
    OARLOCK_ASSIGN_OR_RETURN(const v1::ListFilesResponse known,
                             job_->ListFiles(next));
    if (known.files().empty()) return trained;
    for (const v1::TrainingFile& file : known.files()) {
      begun_.insert(file.file());
      next = file.epoch() + 1;
      if (file.trained()) trained = next;
    }
  }
}

absl::StatusOr<std::optional<v1::TrainingFile>> OnlineTraining::NextFile(
    uint32_t epoch) {
  const absl::Duration watch_poll = absl::Seconds(config_.watch_poll_s());
  absl::Time next_look = absl::InfinitePast();
  for (;;) {
    OARLOCK_RETURN_IF_ERROR(job_->Alive());
    OARLOCK_ASSIGN_OR_RETURN(const v1::ListFilesResponse known,
                             job_->ListFiles(epoch));
    if (!known.files().empty()) {
      begun_.insert(known.files(0).file());
      return known.files(0);
    }
    if (known.training_stopped()) return std::nullopt;
    const absl::Time now = clocks_.monotonic->Now();
    if (IsFirstWorker() && now >= next_look) {
      const size_t begun = begun_.size();
      OARLOCK_RETURN_IF_ERROR(OfferFile(epoch));
      if (begun_.size() > begun) continue;
      next_look = now + watch_poll;
      const absl::Duration idle = absl::Seconds(config_.watch_idle_s());
      if (idle > absl::ZeroDuration() && now - last_busy_ >= idle) {
        OARLOCK_RETURN_IF_ERROR(job_->StopTraining(
            absl::StrFormat("no new file came into %s for %g s",
                            config_.watch_dir(), config_.watch_idle_s())));
        continue;
      }
    }
    clocks_.monotonic->Sleep(std::min(watch_poll, kLongestPoll));
  }
}

absl::Status OnlineTraining::OfferFile(uint32_t epoch) {
  const absl::StatusOr<std::vector<std::string>> names = source_->List();
  if (!names.ok()) {
    // One that was never there is a mistake.
    if (!folder_was_there_ && begun_.empty()) return names.status();
    if (!folder_is_away_) {
      Log().warn("{}; it was there before, so it is awaited",
                 std::string(names.status().message()));
    }
    folder_is_away_ = true;
    return absl::OkStatus();
  }
  if (folder_is_away_) {
    Log().info("--watch_dir {} is there again", config_.watch_dir());
  }
  folder_is_away_ = false;
  folder_was_there_ = true;
  for (const std::string& name : *names) {
    if (begun_.contains(name)) continue;
    std::optional<v1::TrainingFile> file = ReadableOf(name);
    if (!file.has_value()) continue;
    file->set_epoch(epoch);
    const absl::Status recorded = job_->RecordFile(*file);
    // Stopped meanwhile: the next question says so.
    if (absl::IsFailedPrecondition(recorded)) return absl::OkStatus();
    OARLOCK_RETURN_IF_ERROR(recorded);
    begun_.insert(name);
    return absl::OkStatus();
  }
  return absl::OkStatus();
}

std::optional<v1::TrainingFile> OnlineTraining::ReadableOf(
    const std::string& name) {
  if (unreadable_.contains(name)) return std::nullopt;
  v1::TrainingFile file;
  file.set_file(name);
  const std::string path = WatchedPaths(config_, file).front();
  const absl::StatusOr<std::vector<std::string>> parts = source_->PartsOf(name);
  // It has gone since the folder was listed.
  if (absl::IsNotFound(parts.status())) return std::nullopt;
  if (!parts.ok()) {
    unreadable_.insert(name);
    LeaveOut(path, parts.status());
    return std::nullopt;
  }
  bool can_be_trained = false;
  for (const std::string& part : *parts) {
    const std::string part_path =
        part.empty() ? path : absl::StrCat(path, "/", part);
    const absl::Status readable =
        data::CheckInput(DataOptionsOf(config_), part_path);
    std::error_code error;
    if (readable.ok()) {
      can_be_trained = true;
      if (!part.empty()) file.add_parts(part);
    } else if (!std::filesystem::exists(part_path, error)) {
      return std::nullopt;
    } else if (unreadable_.insert(part.empty() ? name : part_path).second) {
      LeaveOut(part_path, readable);
    }
  }
  if (can_be_trained) return file;
  if (unreadable_.insert(name).second) {
    Log().warn("folder {} is left out: it has no file to train", path);
  }
  return std::nullopt;
}

void OnlineTraining::LeaveOut(const std::string& path,
                              const absl::Status& why) {
  Log().warn(
      "file {} is left out, {} so far: {}; write it again under "
      "another name",
      path, unreadable_.size(), std::string(why.message()));
}

TrainingData::SkipPolicy OnlineTraining::SkipPolicyOf(
    const v1::TrainingFile& file) const {
  return file.epoch() == 0 ? TrainingData::SkipPolicy::kUnreadable
                           : TrainingData::SkipPolicy::kUnreadableAndMalformed;
}

absl::Status OnlineTraining::TrainFile(const v1::TrainingFile& file) {
  const std::vector<std::string> paths = WatchedPaths(config_, file);
  OARLOCK_RETURN_IF_ERROR(PredictFile(file, paths));
  if (file.epoch() < job_->own_trained_epochs()) {
    // The file may be gone.
    OARLOCK_RETURN_IF_ERROR(job_->WaitForTrained(file.epoch()));
  } else {
    OARLOCK_ASSIGN_OR_RETURN(
        const std::unique_ptr<TrainingData> data,
        TrainingData::Open(config_, paths, TrainingData::Division::kConfigured,
                           job_, *clocks_.monotonic, SkipPolicyOf(file)));
    OARLOCK_RETURN_IF_ERROR(steps_.train(*data, file.epoch()));
  }
  if (IsFirstWorker()) OARLOCK_RETURN_IF_ERROR(Finish(file));
  return steps_.evaluate(file.epoch());
}

absl::Status OnlineTraining::PredictFile(
    const v1::TrainingFile& file, const std::vector<std::string>& paths) {
  const PhaseId phase{"predict", file.epoch()};
  // In a job that was resumed parts of the file may be trained: its figure of
  // before stands. All workers still meet at the same places. Within a run the
  // phase stays as it was defined.
  std::vector<std::string> predicted = paths;
  if (IsFirstWorker()) {
    OARLOCK_ASSIGN_OR_RETURN(const v1::JobStatusResponse status,
                             job_->GetJobStatus());
    const bool known = std::any_of(
        status.evaluations().begin(), status.evaluations().end(),
        [&](const v1::Evaluation& e) { return e.work() == phase.Name(); });
    const bool in_this_run =
        std::any_of(status.phases().begin(), status.phases().end(),
                    [&](const v1::PhaseStatus& p) {
                      return p.progress().phase() == phase.phase &&
                             p.progress().epoch() == phase.epoch &&
                             p.progress().examples() > 0;
                    });
    if (known && !in_this_run) predicted.clear();
  }
  OARLOCK_ASSIGN_OR_RETURN(
      const std::unique_ptr<TrainingData> data,
      TrainingData::Open(config_, predicted, TrainingData::Division::kLeased,
                         job_, *clocks_.monotonic, SkipPolicyOf(file)));
  OARLOCK_RETURN_IF_ERROR(steps_.predict(*data, phase));
  OARLOCK_RETURN_IF_ERROR(ConcludeEvaluationOfAll(config_, job_, phase,
                                                  file.file(), *clocks_.wall));
  return IsFirstWorker() ? WarnOfBadLines(file) : absl::OkStatus();
}

absl::Status OnlineTraining::WarnOfBadLines(const v1::TrainingFile& file) {
  OARLOCK_ASSIGN_OR_RETURN(const v1::JobStatusResponse status,
                           job_->GetJobStatus());
  const auto max = static_cast<uint64_t>(config_.bad_lines_max());
  for (const v1::PhaseStatus& phase : status.phases()) {
    const v1::PhaseProgress& progress = phase.progress();
    if (progress.phase() != "predict" || progress.epoch() != file.epoch() ||
        progress.bad_lines() <= max) {
      continue;
    }
    Log().warn(
        "file {} of epoch {} has {} malformed lines, more than the {} "
        "of --bad_lines_max: they are left out; see the file",
        file.file(), file.epoch(), progress.bad_lines(), max);
  }
  return absl::OkStatus();
}

absl::Status OnlineTraining::Finish(v1::TrainingFile file) {
  file.set_trained(true);
  file.clear_parts();
  const absl::Status recorded = job_->RecordFile(file);
  if (absl::IsFailedPrecondition(recorded)) {
    Log().info("{}", std::string(recorded.message()));
    return absl::OkStatus();
  }
  OARLOCK_RETURN_IF_ERROR(recorded);
  Log().info("file {} of epoch {} is trained", file.file(), file.epoch());
  if (!job_->takes_cuts()) return absl::OkStatus();
  const absl::Status made = job_->Checkpoint();
  if (!made.ok()) {
    Log().warn("no checkpoint after file {}: {}; the next one has it too",
               file.file(), std::string(made.message()));
  }
  return absl::OkStatus();
}

}  // namespace oarlock::worker
