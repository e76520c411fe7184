// Calls of raw messages to servers on one completion queue, with retries.

#ifndef OARLOCK_WORKER_CLIENT_DATA_PLANE_H_
#define OARLOCK_WORKER_CLIENT_DATA_PLANE_H_

#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/types.h"
#include "cluster/retry.h"
#include "worker/client/server_connections.h"

namespace oarlock {

// Thread-safe. One thread takes completions and runs the callbacks.
class DataPlane {
 public:
  // Called once, on the queue's thread; must not block.
  using OnAnswer = absl::AnyInvocable<void(absl::StatusOr<grpc::ByteBuffer>)>;

  enum class Method { kPullSparse, kPushSparse, kPullDense, kPushDense };

  // `connections` outlives this.
  explicit DataPlane(const ServerConnections* connections);
  // Cancels what is under way; its callbacks get Cancelled.
  ~DataPlane();

  DataPlane(const DataPlane&) = delete;
  DataPlane& operator=(const DataPlane&) = delete;

  // Sends `request` until it is answered. A failure that the same call may
  // cure is retried with backoff until the connections' rpc_timeout has
  // passed since the first one; `attempt_timeout` bounds one attempt.
  void Call(ServerIndex server, Method method, grpc::ByteBuffer request,
            absl::Duration attempt_timeout, OnAnswer on_answer);

 private:
  struct PendingCall;

  void Start(PendingCall* call);
  // The attempt ended or the backoff is over.
  void OnEvent(PendingCall* call);
  void OnAttemptEnd(PendingCall* call);
  void Finish(PendingCall* call, absl::StatusOr<grpc::ByteBuffer> answer);
  void Poll();

  const ServerConnections* const connections_;
  std::vector<std::unique_ptr<grpc::GenericStub>> stubs_;
  grpc::CompletionQueue queue_;
  std::thread thread_;

  absl::Mutex mutex_;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  absl::flat_hash_set<PendingCall*> pending_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace oarlock

#endif  // OARLOCK_WORKER_CLIENT_DATA_PLANE_H_
