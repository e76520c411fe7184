// The coordinator of a job that this process has started, from outside.

#ifndef OARLOCK_CLI_TRAIN_JOB_OBSERVER_H_
#define OARLOCK_CLI_TRAIN_JOB_OBSERVER_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/server_connections.h"
#include "proto/v1/coordinator_job.pb.h"

namespace oarlock::cli {

// Connects on the first call that succeeds. Servers that are away are not
// waited for: the job may be over. One thread at a time.
class JobObserver {
 public:
  static constexpr absl::Duration kRetryFor = absl::Seconds(5);

  explicit JobObserver(client::ConnectionOptions options)
      : options_(std::move(options)) {}

  absl::StatusOr<v1::JobStatusResponse> Status();
  // See CoordinatorService; tried for kRetryFor. Drain returns when its
  // checkpoint is made.
  absl::Status Stop(const std::string& reason);
  absl::Status Drain(const std::string& reason);
  // Server 0's --checkpoint_dir; empty: it makes none.
  absl::StatusOr<std::string> CheckpointDir();

 private:
  absl::Status Connect();
  // Calls it again while servers are away, or slow.
  absl::Status Retried(absl::FunctionRef<absl::Status()> call) const;
  absl::Status Ask(absl::FunctionRef<grpc::Status(grpc::ClientContext*)> call);

  const client::ConnectionOptions options_;
  // Null until it is connected.
  std::unique_ptr<client::ServerConnections> connections_;
};

}  // namespace oarlock::cli

#endif  // OARLOCK_CLI_TRAIN_JOB_OBSERVER_H_
