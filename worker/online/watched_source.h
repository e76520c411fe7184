// Where an online job looks for data that is complete: a folder of files, or
// folders of files. What a store lists can be another one.

#ifndef OARLOCK_WORKER_ONLINE_WATCHED_SOURCE_H_
#define OARLOCK_WORKER_ONLINE_WATCHED_SOURCE_H_

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/config/job_config.pb.h"
#include "proto/v1/coordinator_training.pb.h"

namespace oarlock::worker {

// InvalidArgument when --watch_dir or a flag of its markers is not legal.
absl::Status CheckWatchedSource(const v1::JobConfig& config);

// What is complete is an epoch's data: a file, or the files of a folder. It has
// a name, by which it is known in the job, its checkpoints and its successors,
// and no other ever has that name. Not thread-safe; used by worker 0 alone.
class WatchedSource {
 public:
  virtual ~WatchedSource() = default;

  // Names of all that is complete, in natural order. NotFound, naming the
  // place, where it is not there.
  virtual absl::StatusOr<std::vector<std::string>> List() = 0;
  // The files of one of them, by names within it, in natural order; {""}: it is
  // a file itself. None: there is nothing to train. An error: why it cannot be
  // trained.
  virtual absl::StatusOr<std::vector<std::string>> PartsOf(
      const std::string& name) = 0;
};

// That of --watch_dir.
std::unique_ptr<WatchedSource> NewWatchedSource(const v1::JobConfig& config);

// Paths of the files of an epoch, for all workers: what the coordinator knows
// of it is enough.
std::vector<std::string> WatchedPaths(const v1::JobConfig& config,
                                      const v1::TrainingFile& file);

// The complete files of a folder. Those whose names begin with "." or end with
// ".tmp" are none, nor are folders and markers; a name that a list of files
// could not carry (with a blank, a comma, or one of * ? [) is left out, with
// one warning.
class WatchedFolder : public WatchedSource {
 public:
  // `marker`: empty, or the suffix of the file that says that another one is
  // complete.
  WatchedFolder(std::string folder, std::string marker)
      : folder_(std::move(folder)), marker_(std::move(marker)) {}

  // Names without the folder.
  absl::StatusOr<std::vector<std::string>> List() override;
  absl::StatusOr<std::vector<std::string>> PartsOf(
      const std::string& name) override;

 private:
  const std::string folder_;
  const std::string marker_;
  std::set<std::string> warned_;
};

// The complete folders that match a pattern, "in/day=*/hour=*": those with the
// file `marker`. Their files are those that do not begin with "_" or "."; what
// is in folders within them is not read. Folders that begin with "." match only
// a pattern that does.
class WatchedFolders : public WatchedSource {
 public:
  WatchedFolders(const std::string& pattern, std::string marker);

  // The part of the pattern in front of the first wildcard: "in".
  static std::string RootOf(const std::string& pattern);

  // Names without the root: "day=2026-11-29/hour=07".
  absl::StatusOr<std::vector<std::string>> List() override;
  // ResourceExhausted where there are more than the coordinator takes.
  absl::StatusOr<std::vector<std::string>> PartsOf(
      const std::string& name) override;

 private:
  const std::string root_;
  // Of each folder below the root.
  std::vector<std::string> patterns_;
  const std::string marker_;
  std::set<std::string> warned_;
};

}  // namespace oarlock::worker

#endif  // OARLOCK_WORKER_ONLINE_WATCHED_SOURCE_H_
