// A pull or a push of GrpcParameterClient that waits for its responses.

#ifndef OARLOCK_CLIENT_GRPC_PARAMETER_OPERATION_H_
#define OARLOCK_CLIENT_GRPC_PARAMETER_OPERATION_H_

#include <cstddef>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "client/grpc_parameter_client.h"

namespace oarlock::client {

// Counts the responses of an operation's messages. After the last one, calls
// `done` with the first failure, or OK.
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
    // No other thread uses this any more.
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
