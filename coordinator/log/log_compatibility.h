// Whether a new run of a job continues from the logs of the run before it
// (durability `log`). When all processes have died, the servers' logs have
// every push that was acknowledged, and the coordinator's log says which
// examples these are. This holds only for all logs together, and only under the
// same boot of the machine.
//
// One small file says whether it holds: <checkpoint_dir>/log/RUN. Each server
// decides by this file and by options that are the same on all servers, so all
// decide the same:
//
// 1. A server that begins without its log removes the file first, then its log.
// 2. Server 0 writes the file when it has received a heartbeat from every
//    server. Each of them has begun its log by then.
//
// So the file exists only if all logs are of one run, at whatever point
// everything died. It is not synced: after a loss of power the boot is another
// one.

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

// What has to be the same for the logs to be valid, except where a field says
// otherwise.
struct LogCompatibility {
  // See BootId. Empty: the logs are not all of one known boot.
  std::string boot_id;
  uint32_t num_servers = 0;
  uint32_t num_partitions = 0;
  // Calls to the coordinator are replayed with these.
  int64_t lease_ms = 0;
  int64_t tick_ms = 0;
  // The most workers that any run had since the logs began. May differ.
  uint32_t num_workers = 0;
  // Whether a run has continued from logs. May differ.
  bool continued = false;
};

// One line, as in the file.
std::string FormatLogCompatibility(const LogCompatibility& logs);
// DataLoss.
absl::StatusOr<LogCompatibility> ParseLogCompatibility(absl::string_view line);

// What a new run does, as the file says.
struct ReplayDecision {
  bool go_on = false;
  // If not, the reason; a clause.
  std::string why;
  // The number of workers whose pushes may be in the logs; 0: there is no file.
  uint32_t num_workers = 0;
};

// `log_dir`: <checkpoint_dir>/log. `now`: of the new run. Errors of the disk.
absl::StatusOr<ReplayDecision> DecideReplay(storage::FileSystem* files,
                                            const std::string& log_dir,
                                            const LogCompatibility& now);
// Removes the file RUN. Call it before anything in `log_dir` is removed, and
// when a log there cannot be read. Idempotent.
absl::Status ForgetLogs(storage::FileSystem* files, const std::string& log_dir);

// The file RUN of a run; server 0 writes it. Thread-safe.
class RunFile {
 public:
  enum class Begin {
    // Without the logs of the run before; their file is removed.
    kWithoutLogs,
    // From those logs: all processes are new.
    kFromLogs,
    // This process alone is new: the file stays what it is.
    kAsSuccessor,
  };
  static absl::StatusOr<std::unique_ptr<RunFile>> Create(
      storage::FileSystem* files, const std::string& log_dir,
      const LogCompatibility& now, Begin begin);

  // Records a call to the coordinator before it is done. Errors as Forbid.
  absl::Status RecordCall(const v1::CoordinatorCall& call);
  // The run begins something, named by `what`, of which logs do not record
  // enough: no later run will continue from them. FailedPrecondition where this
  // run itself has continued from logs; errors of the disk.
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
  // The file is to be written once every server has sent a heartbeat.
  bool may_write_ ABSL_GUARDED_BY(mutex_);
  std::set<uint32_t> heard_of_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace oarlock::coordinator

#endif  // OARLOCK_COORDINATOR_LOG_LOG_COMPATIBILITY_H_
