// The coordinator of a job that this process has started, from outside.

#ifndef OARLOCK_CLI_TRAIN_JOB_OBSERVER_H_
#define OARLOCK_CLI_TRAIN_JOB_OBSERVER_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/server_connections.h"
#include "proto/v1/coordinator_job.pb.h"

namespace oarlock::cli {

// Connects on the first call that succeeds. Servers that are away are not
// waited for: the job may be over. One thread at a time.
class JobObserver {
 public:
  explicit JobObserver(client::ConnectionOptions options)
      : options_(std::move(options)) {}

  absl::StatusOr<v1::JobStatusResponse> Status();
  // See CoordinatorService. Drain returns when its checkpoint is made.
  absl::Status Stop(const std::string& reason);
  absl::Status Drain(const std::string& reason);

 private:
  absl::Status Connect();
  absl::Status Ask(absl::FunctionRef<grpc::Status(grpc::ClientContext*)> call);

  const client::ConnectionOptions options_;
  // Null until it is connected.
  std::unique_ptr<client::ServerConnections> connections_;
};

}  // namespace oarlock::cli

#endif  // OARLOCK_CLI_TRAIN_JOB_OBSERVER_H_
