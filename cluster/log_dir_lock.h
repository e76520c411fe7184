// Keeps jobs apart that write to one log folder.
//
// Files there are named after roles: worker 0 of every job has workerlog.0, and
// writes summary.json. Nodes of one job may share a folder, since their roles
// differ; two jobs may not. So a role's files are locked, not the folder: each
// role has a byte of the file LOCK in it, locked by fcntl. The kernel releases
// it when the process dies; programs that it starts do not keep it.

#ifndef OARLOCK_CLUSTER_LOG_DIR_LOCK_H_
#define OARLOCK_CLUSTER_LOG_DIR_LOCK_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cluster/environment.h"

namespace oarlock::cluster {

// Whose files are written. A local run is a worker 0.
struct LogWriter {
  Role role = Role::kWorker;
  uint32_t index = 0;
};

class LogDirLock {
 public:
  // Makes the folder where it is missing, and locks the files of `writers`
  // until the result is destroyed. Unavailable when another job (or another
  // lock of this process) has one of them, or when the folder cannot be made or
  // written. On a file system that cannot lock, a warning.
  static absl::StatusOr<std::unique_ptr<LogDirLock>> Take(
      const std::string& log_dir, const std::vector<LogWriter>& writers);
  ~LogDirLock();

  LogDirLock(const LogDirLock&) = delete;
  LogDirLock& operator=(const LogDirLock&) = delete;

 private:
  explicit LogDirLock(int file) : file_(file) {}

  const int file_;
};

}  // namespace oarlock::cluster

#endif  // OARLOCK_CLUSTER_LOG_DIR_LOCK_H_
