#include "launch/job_files.h"

#include <filesystem>
#include <system_error>

#include "absl/algorithm/container.h"
#include "base/status_macros.h"
#include "cluster/job_file.h"
#include "cluster/loopback.h"

namespace oarlock::launch {
namespace {

// All servers and workers of the job are this launcher's.
bool IsOnThisNodeAlone(const LaunchPlan& plan) {
  return !plan.collective &&
         plan.processes.size() ==
             plan.server_endpoints.size() + plan.worker_endpoints.size();
}

}  // namespace

absl::StatusOr<std::string> WriteJobFiles(const LaunchPlan& plan,
                                          const std::string& token_file) {
  std::string made;
  if (!IsOnThisNodeAlone(plan)) return made;
  cluster::JobFile job = {.job_id = plan.job_id,
                          .server_endpoints = plan.server_endpoints,
                          .token_file = token_file};
  const auto given = plan.base_environment.find(kTokenFileVariable);
  if (job.token_file.empty() && given != plan.base_environment.end()) {
    job.token_file = given->second;
  }
  if (!job.token_file.empty()) {
    std::error_code error;
    job.token_file = std::filesystem::absolute(job.token_file, error).string();
  } else if (absl::c_all_of(plan.server_endpoints, cluster::IsLoopback)) {
    OARLOCK_RETURN_IF_ERROR(cluster::WriteRandomToken(plan.log_dir));
    job.token_file = made = cluster::JobTokenPath(plan.log_dir);
  }
  OARLOCK_RETURN_IF_ERROR(cluster::WriteJobFile(plan.log_dir, job));
  return made;
}

void RemoveJobFiles(const LaunchPlan& plan) {
  if (IsOnThisNodeAlone(plan)) cluster::RemoveJobFiles(plan.log_dir);
}

}  // namespace oarlock::launch
