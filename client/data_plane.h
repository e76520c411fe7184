// Calls of raw messages to servers on one completion queue, with retries, also
// to servers that are restarted under way.

#ifndef OARLOCK_CLIENT_DATA_PLANE_H_
#define OARLOCK_CLIENT_DATA_PLANE_H_

#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>

#include <map>
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
#include "client/completion_thread.h"
#include "client/server_connections.h"
#include "cluster/retry.h"
#include "proto/v1/server_admin.pb.h"
#include "wire/batch_codec.h"

namespace oarlock::client {

// Thread-safe. The thread of the queue runs the callbacks; another one connects
// to servers that have come back.
//
// A call is encoded for one incarnation of its server. When another one answers
// (kOtherGeneration), what was sent to the old one is put aside, the server is
// connected to and prepared, and then the calls are encoded and sent again.
//
// A small call costs more to send than to do: some 150 us of both sides'
// processors. So calls to one server that begin together travel together, and
// one that is not needed yet may be queued for a batch. A batch's requests have
// about 1 MiB, and its responses kMaxBatchResponseBytes.
class DataPlane {
 public:
  static constexpr size_t kMaxBatchResponseBytes = size_t{16} << 20;

  // Called once, on the queue's thread; must not block.
  using OnResponse = absl::AnyInvocable<void(absl::StatusOr<grpc::ByteBuffer>)>;

  // The request for an incarnation of the server. Called before each attempt
  // to reach another one, from any thread; gone when on_response is called, as
  // is the request, but for what the transport still holds.
  using Encode = absl::AnyInvocable<grpc::ByteBuffer(Generation)>;
  // Prepares another incarnation of the server for its calls; from the thread
  // that connects, may block.
  using OnReturn =
      absl::AnyInvocable<absl::Status(ServerIndex, const v1::ConnectResponse&)>;

  struct Call {
    wire::BatchMethod method;
    Encode encode;
    OnResponse on_response;
    // What its response has at most, about.
    size_t response_bytes = 0;
    // Flush sends the calls of one owner.
    const void* owner = nullptr;
  };

  // `connections` and `completions` outlive this. Null `on_return`: nothing is
  // to be done.
  DataPlane(const ServerConnections* connections, CompletionThread* completions,
            OnReturn on_return = nullptr);
  // Cancels what is under way; its callbacks get Cancelled.
  ~DataPlane();

  DataPlane(const DataPlane&) = delete;
  DataPlane& operator=(const DataPlane&) = delete;

  // Sends the calls, which the server does in this order, and with them those
  // that are queued for a batch, until they are answered. A failure that the
  // same call may cure is retried with backoff until the connections'
  // retry_timeout() has gone by since the first one; `attempt_timeout` bounds
  // one attempt.
  void Send(ServerIndex server, std::vector<Call> calls,
            absl::Duration attempt_timeout);
  void Send(ServerIndex server, Call call, absl::Duration attempt_timeout);

  // Queues the call for a batch: it is sent with the next call to the server,
  // or by Flush.
  void Enqueue(ServerIndex server, Call call);
  // If calls of `owner` are queued for a server, sends all that are queued for
  // it.
  void Flush(const void* owner);
  // The calls of `owner` end with Cancelled, soon, unless they travel with
  // others' calls, which they end with. REQUIRES: owner is not null.
  void Cancel(const void* owner);

 private:
  struct Attempt;

  // What is queued for a batch.
  std::vector<Call> TakeWaiting(ServerIndex server);
  // Encodes the attempt's calls for an incarnation of their server.
  static void EncodeFor(Generation generation, Attempt* attempt);
  void Start(Attempt* attempt);
  // The attempt ended or the backoff is over.
  void OnEvent(Attempt* attempt);
  void OnAttemptEnd(Attempt* attempt);
  // The call's part of the attempt ends: what its request holds is let go, and
  // then the call gets its response.
  static void Answer(Attempt* attempt, size_t index,
                     absl::StatusOr<grpc::ByteBuffer> response);
  // Gives the responses of a batch to its calls; those that may be cured are
  // sent again.
  void OnBatchAnswered(Attempt* attempt);
  // Waits before it starts again. False: no more attempts, `status` says why.
  bool BackOff(Attempt* attempt, absl::Status* status);
  void Finish(Attempt* attempt, const absl::Status& status);
  // Another incarnation has answered: the attempt waits until it is connected
  // to.
  void AwaitReturn(Attempt* attempt);
  // Connects to the server's new incarnation and prepares it.
  absl::StatusOr<Generation> Return(ServerIndex server);
  void RunReturns();

  const ServerConnections* const connections_;
  OnReturn on_return_;
  std::vector<std::unique_ptr<grpc::GenericStub>> stubs_;
  grpc::CompletionQueue* const queue_;
  std::thread returns_thread_;

  absl::Mutex mutex_;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  absl::flat_hash_set<Attempt*> attempts_ ABSL_GUARDED_BY(mutex_);
  // By server.
  std::vector<std::vector<Call>> waiting_ ABSL_GUARDED_BY(mutex_);
  // By server: attempts that wait for it to be connected to.
  std::map<ServerIndex, std::vector<Attempt*>> returning_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace oarlock::client

#endif  // OARLOCK_CLIENT_DATA_PLANE_H_
