// What GrpcParameterClient's pulls and pushes wait for.

#ifndef OARLOCK_CLIENT_GRPC_PARAMETER_OPERATION_H_
#define OARLOCK_CLIENT_GRPC_PARAMETER_OPERATION_H_

#include <cstddef>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "client/grpc_parameter_client.h"

namespace oarlock::client {

// Counts the responses of an operation's messages; calls `done` after the last
// with the first failure.
class GrpcParameterClient::Operation {
 public:
  Operation(size_t num_messages, Done done)
      : remaining_(num_messages), done_(std::move(done)) {}

  void OnMessageDone(absl::Status status) {
    {
      absl::MutexLock lock(&mutex_);
      if (!status.ok() && status_.ok()) status_ = std::move(status);
      if (--remaining_ > 0) return;
    }
    // Nobody else can touch it any more.
    absl::MutexLock lock(&mutex_);
    std::exchange(done_, nullptr)(status_);
  }

 private:
  absl::Mutex mutex_;
  size_t remaining_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  Done done_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace oarlock::client

#endif  // OARLOCK_CLIENT_GRPC_PARAMETER_OPERATION_H_
