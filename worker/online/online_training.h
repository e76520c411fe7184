// Online training: the files that appear in a folder, each predicted before it
// is trained, each trained once (docs/online_training.md).

#ifndef OARLOCK_WORKER_ONLINE_ONLINE_TRAINING_H_
#define OARLOCK_WORKER_ONLINE_ONLINE_TRAINING_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "client/job_client.h"
#include "proto/config/job_config.pb.h"
#include "proto/v1/coordinator_training.pb.h"
#include "worker/input/training_data.h"
#include "worker/online/watched_source.h"
#include "worker/report/progress_meter.h"

namespace oarlock::worker {

// InvalidArgument when flags of online training contradict others.
absl::Status CheckOnlineTraining(const v1::JobConfig& config);

// One thread at a time.
class OnlineTraining {
 public:
  // What it has done by whoever has the model. Each returns when this worker's
  // part is done; all workers call the same ones in the same order.
  struct Steps {
    // Predicts all of the data as `phase`.
    std::function<absl::Status(TrainingData& data, const PhaseId& phase)>
        predict;
    // Trains epoch `epoch`; returns when all workers are through.
    std::function<absl::Status(TrainingData& data, uint32_t epoch)> train;
    // Evaluates the test files, if there are any.
    std::function<absl::Status(uint32_t epoch)> evaluate;
  };

  // `config`, `job` and the clocks outlive this.
  OnlineTraining(const v1::JobConfig& config, client::JobClient* job,
                 Steps steps, const Clocks& clocks);

  // Trains file after file, or folder after folder, until training is stopped.
  // Worker 0 alone looks into the folder and tells the coordinator which file
  // is which epoch; so workers agree, and so do incarnations. Stops training
  // itself when no file came for
  // --watch_idle_s. A file that cannot be read, or the rest of one that is
  // gone, is left out with a warning; a folder that was there and is away is
  // awaited. NotFound when it was never there.
  absl::Status Run();

 private:
  // Learns which files were begun; how many of them are trained.
  absl::StatusOr<uint32_t> LearnFiles();
  // What epoch `epoch` trains; nothing: training is stopped.
  absl::StatusOr<std::optional<v1::TrainingFile>> NextFile(uint32_t epoch);
  // Worker 0: gives the epoch the next new file, if there is one.
  absl::Status OfferFile(uint32_t epoch);
  absl::Status TrainFile(const v1::TrainingFile& file);
  absl::Status PredictFile(const v1::TrainingFile& file,
                           const std::vector<std::string>& paths);
  // Worker 0, after it was predicted.
  absl::Status WarnOfBadLines(const v1::TrainingFile& file);
  // Worker 0: what can be read of it; nothing: it is left out, or was removed
  // since. What cannot be opened, or is no text, is logged the first time.
  std::optional<v1::TrainingFile> ReadableOf(const std::string& name);
  void LeaveOut(const std::string& path, const absl::Status& why);
  // A job that runs for weeks does not end with one bad file. In its first one
  // too many malformed lines mean that the flags do not fit the data.
  TrainingData::SkipPolicy SkipPolicyOf(const v1::TrainingFile& file) const;
  // All of it is trained, and soon in a checkpoint.
  absl::Status Finish(v1::TrainingFile file);
  bool IsFirstWorker() const;

  const v1::JobConfig& config_;
  client::JobClient* const job_;
  const Steps steps_;
  const Clocks clocks_;
  const std::unique_ptr<WatchedSource> source_;
  // Files that were given to epochs.
  std::set<std::string> begun_;
  // Names, and paths of files of folders, that were left out.
  std::set<std::string> unreadable_;
  bool folder_was_there_ = false;
  bool folder_is_away_ = false;
  // When there was something to do, or this began, by the monotonic clock.
  absl::Time last_busy_;
};

}  // namespace oarlock::worker

#endif  // OARLOCK_WORKER_ONLINE_ONLINE_TRAINING_H_
