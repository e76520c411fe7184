// Whether a new run of a job goes on from the logs of the one before it
// (durability `log`). When all processes have died, the logs have every push
// that was acknowledged, and the coordinator's says what of the data that is;
// but only all logs together, and only under the same boot of the machine.
//
// What says so is one small file, <checkpoint_dir>/log/RUN. Each server decides
// by it, and by what all servers are told alike, so all decide the same:
//
// 1. Who begins without its log removes the file first, then its log.
// 2. Server 0 writes the file when it has heard of every server, each of which
//    has begun its log by then.
//
// So the file is there only if all logs are of one run, wherever in between
// everything died. It is not synced: after a loss of power the boot is another.

#ifndef OARLOCK_COORDINATOR_LOG_LOG_COMPATIBILITY_H_
#define OARLOCK_COORDINATOR_LOG_LOG_COMPATIBILITY_H_

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "proto/state/coordinator_state.pb.h"
#include "storage/file_system.h"

namespace oarlock::coordinator {

// What has to be the same for the logs to be understood.
struct LogCompatibility {
  // See BootId; empty: the logs are not those of one known boot.
  std::string boot_id;
  uint32_t num_servers = 0;
  uint32_t num_partitions = 0;
  // Calls to the coordinator are done again by these.
  int64_t lease_ms = 0;
  int64_t tick_ms = 0;
  // The most that any run had since the logs began; may be another.
  uint32_t num_workers = 0;
  // A run has gone on from logs.
  bool continued = false;
};

// One line.
std::string FormatLogCompatibility(const LogCompatibility& logs);
// DataLoss.
absl::StatusOr<LogCompatibility> ParseLogCompatibility(absl::string_view line);

// What the file says, if there is one.
struct ReplayDecision {
  bool go_on = false;
  // Why not; a clause.
  std::string why;
  // Of the workers whose pushes may be in the logs; 0: there is no file.
  uint32_t num_workers = 0;
};

// `log_dir`: <checkpoint_dir>/log. `now`: of the run that begins. Errors of the
// disk.
absl::StatusOr<ReplayDecision> DecideReplay(storage::FileSystem* files,
                                            const std::string& log_dir,
                                            const LogCompatibility& now);
// Before anything in `log_dir` is removed, or cannot be read; idempotent.
absl::Status ForgetLogs(storage::FileSystem* files, const std::string& log_dir);

// The file RUN, which server 0 writes while a run goes on. Thread-safe.
class RunFile {
 public:
  enum class Begin {
    // Without the logs of the run before, which are forgotten.
    kWithoutLogs,
    // From them: all processes are new.
    kFromLogs,
    // This process alone is new: the file is what it is.
    kAsSuccessor,
  };
  static absl::StatusOr<std::unique_ptr<RunFile>> Create(
      storage::FileSystem* files, const std::string& log_dir,
      const LogCompatibility& now, Begin begin);

  // A call to the coordinator, before it is done. Errors as Forbid.
  absl::Status RecordCall(const v1::CoordinatorCall& call);
  // The run begins something that logs do not tell enough of, say `what`: none
  // will go on from them. FailedPrecondition where this run did so itself;
  // errors of the disk.
  absl::Status Forbid(absl::string_view what);

 private:
  RunFile(storage::FileSystem* files, const std::string& log_dir,
          LogCompatibility now, bool may_write)
      : files_(files),
        log_dir_(log_dir),
        now_(std::move(now)),
        may_write_(may_write) {}

  absl::Status Write() const;

  storage::FileSystem* const files_;
  const std::string log_dir_;
  const LogCompatibility now_;
  absl::Mutex mutex_;
  // The file is to be written when all servers have been heard of.
  bool may_write_ ABSL_GUARDED_BY(mutex_);
  std::set<uint32_t> heard_of_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace oarlock::coordinator

#endif  // OARLOCK_COORDINATOR_LOG_LOG_COMPATIBILITY_H_
