// What a job on this machine leaves in its log folder for `oarlock ctl`, for as
// long as it runs: job.json, which names the job and its servers, and the token
// that its launcher has made.

#ifndef OARLOCK_CLUSTER_JOB_FILE_H_
#define OARLOCK_CLUSTER_JOB_FILE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace oarlock::cluster {

struct JobFile {
  std::string job_id;
  std::vector<std::string> server_endpoints;
  // Absolute; empty: the servers demand none.
  std::string token_file;
};

// <log_dir>/job.json and <log_dir>/token, absolute.
std::string JobFilePath(const std::string& log_dir);
std::string JobTokenPath(const std::string& log_dir);

// Errors of the three name the file. The token is 256 random bits that only
// this user may read.
absl::Status WriteJobFile(const std::string& log_dir, const JobFile& job);
absl::Status WriteRandomToken(const std::string& log_dir);
// NotFound: no job runs there. DataLoss: what is there is no such file.
absl::StatusOr<JobFile> ReadJobFile(const std::string& log_dir);

// At the end of the job.
void RemoveJobFiles(const std::string& log_dir);

}  // namespace oarlock::cluster

#endif  // OARLOCK_CLUSTER_JOB_FILE_H_
