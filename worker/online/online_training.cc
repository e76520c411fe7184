#include "worker/online/online_training.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "data/reader/file_list.h"
#include "data/reader/input_file.h"
#include "worker/config/data_options_of.h"
#include "worker/evaluation/evaluation.h"

namespace oarlock::worker {
namespace {

constexpr WorkerIndex kFirstWorker(0);
// Between two questions whether there is a file, or training is stopped.
constexpr absl::Duration kLongestPoll = absl::Milliseconds(200);
// What a list of files and patterns gives a meaning.
constexpr char kListCharacters[] = " \t\n,*?[";

bool IsAscii(const std::string& name) {
  return std::all_of(name.begin(), name.end(), absl::ascii_isascii);
}

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
  if (config.watch_dir().find_first_of(kListCharacters) != std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--watch_dir is '", config.watch_dir(),
        "'; legal is a path without blanks, commas, * ? and [; use another "
        "one, or a link to it"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> WatchedFolder::List() {
  std::error_code error;
  std::vector<std::string> names;
  std::filesystem::directory_iterator it(folder_, error);
  for (; !error && it != std::filesystem::directory_iterator();
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    std::error_code gone;
    if (name[0] == '.' || absl::EndsWith(name, ".tmp") ||
        !it->is_regular_file(gone)) {
      continue;
    }
    if (!marker_.empty() &&
        (absl::EndsWith(name, marker_) ||
         !std::filesystem::exists(it->path().string() + marker_, gone))) {
      continue;
    }
    if (!IsAscii(name) ||
        name.find_first_of(kListCharacters) != std::string::npos) {
      if (warned_.insert(name).second) {
        Log().warn(
            "file '{}' of {} is left out: its name has a blank, a "
            "comma, * ? or [, or is not ASCII; rename it",
            absl::CHexEscape(name), folder_);
      }
      continue;
    }
    names.push_back(name);
  }
  if (error) {
    return absl::NotFoundError(absl::StrCat("cannot look into --watch_dir ",
                                            folder_, ": ", error.message(),
                                            "; is the folder there?"));
  }
  std::sort(names.begin(), names.end(), data::NaturalLess);
  return names;
}

OnlineTraining::OnlineTraining(const v1::JobConfig& config,
                               client::JobClient* job, Steps steps,
                               const Clocks& clocks)
    : config_(config),
      job_(job),
      steps_(std::move(steps)),
      clocks_(clocks),
      folder_(config.watch_dir(), config.watch_marker()),
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
  const absl::StatusOr<std::vector<std::string>> names = folder_.List();
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
    if (begun_.contains(name) || IsUnreadable(name)) continue;
    v1::TrainingFile file;
    file.set_epoch(epoch);
    file.set_file(name);
    const absl::Status recorded = job_->RecordFile(file);
    // Stopped meanwhile: the next question says so.
    if (absl::IsFailedPrecondition(recorded)) return absl::OkStatus();
    OARLOCK_RETURN_IF_ERROR(recorded);
    begun_.insert(name);
    return absl::OkStatus();
  }
  return absl::OkStatus();
}

bool OnlineTraining::IsUnreadable(const std::string& name) {
  if (unreadable_.contains(name)) return true;
  const std::string path = absl::StrCat(config_.watch_dir(), "/", name);
  const absl::Status readable = data::CheckInput(DataOptionsOf(config_), path);
  if (readable.ok()) return false;
  std::error_code error;
  // It has gone since the folder was listed.
  if (!std::filesystem::exists(path, error)) return true;
  unreadable_.insert(name);
  Log().warn(
      "file {} is left out, {} so far: {}; write it again under "
      "another name",
      path, unreadable_.size(), std::string(readable.message()));
  return true;
}

TrainingData::SkipPolicy OnlineTraining::SkipPolicyOf(
    const v1::TrainingFile& file) const {
  return file.epoch() == 0 ? TrainingData::SkipPolicy::kUnreadable
                           : TrainingData::SkipPolicy::kUnreadableAndMalformed;
}

absl::Status OnlineTraining::TrainFile(const v1::TrainingFile& file) {
  const std::string path = absl::StrCat(config_.watch_dir(), "/", file.file());
  OARLOCK_RETURN_IF_ERROR(PredictFile(file, path));
  if (file.epoch() < job_->own_trained_epochs()) {
    // The file may be gone.
    OARLOCK_RETURN_IF_ERROR(job_->WaitForTrained(file.epoch()));
  } else {
    OARLOCK_ASSIGN_OR_RETURN(
        const std::unique_ptr<TrainingData> data,
        TrainingData::Open(config_, {path}, TrainingData::Division::kConfigured,
                           job_, *clocks_.monotonic, SkipPolicyOf(file)));
    OARLOCK_RETURN_IF_ERROR(steps_.train(*data, file.epoch()));
  }
  if (IsFirstWorker()) OARLOCK_RETURN_IF_ERROR(Finish(file));
  return steps_.evaluate(file.epoch());
}

absl::Status OnlineTraining::PredictFile(const v1::TrainingFile& file,
                                         const std::string& path) {
  const PhaseId phase{"predict", file.epoch()};
  // In a job that was resumed parts of the file may be trained: its figure of
  // before stands. All workers still meet at the same places. Within a run the
  // phase stays as it was defined.
  std::vector<std::string> predicted = {path};
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
