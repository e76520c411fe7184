// Control-plane calls that no thread waits for: each ends in a callback.

#ifndef OARLOCK_CLIENT_CONTROL_CALLS_H_
#define OARLOCK_CLIENT_CONTROL_CALLS_H_

#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/types.h"
#include "client/completion_thread.h"
#include "client/server_connections.h"

namespace oarlock::client {

// Thread-safe. The thread of the queue runs the callbacks.
class ControlCalls {
 public:
  // Gets the serialized response. Called once, on the queue's thread; must not
  // block.
  using Done = absl::AnyInvocable<void(absl::StatusOr<std::string>)>;

  struct Call {
    ServerIndex server{0};
    // "/oarlock.v1.CoordinatorService/Barrier".
    std::string path;
    // The serialized request.
    std::string request;
    // A failure that the same call may cure is retried with backoff for so
    // long. Zero: the connections' retry_timeout().
    absl::Duration give_up_after = absl::ZeroDuration();
    // The limit of one attempt. Zero: the connections' rpc_timeout.
    absl::Duration attempt_timeout = absl::ZeroDuration();
    Done done;
  };

  // Both outlive this.
  ControlCalls(const ServerConnections* connections,
               CompletionThread* completions);
  // Cancels what is under way; its callbacks get Cancelled.
  ~ControlCalls();

  ControlCalls(const ControlCalls&) = delete;
  ControlCalls& operator=(const ControlCalls&) = delete;

  // Returns the call's number. "Not yet", which is what a barrier answers, is
  // asked again and counts against no limit.
  uint64_t Start(Call call) {
    return StartAfter(absl::ZeroDuration(), std::move(call));
  }
  // The same, but first waits for `delay`.
  uint64_t StartAfter(absl::Duration delay, Call call);
  // The same with messages: `done` gets a StatusOr<Response>.
  template <typename Response, typename Request, typename OnResponse>
  uint64_t Start(ServerIndex server, std::string path, const Request& request,
                 OnResponse done) {
    return StartAfter<Response>(absl::ZeroDuration(), server, std::move(path),
                                request, std::move(done));
  }
  template <typename Response, typename Request, typename OnResponse>
  uint64_t StartAfter(absl::Duration delay, ServerIndex server,
                      std::string path, const Request& request,
                      OnResponse done) {
    Call call;
    call.server = server;
    call.path = std::move(path);
    call.request = request.SerializeAsString();
    call.done = [done = std::move(done)](
                    const absl::StatusOr<std::string>& bytes) mutable {
      if (!bytes.ok()) return done(absl::StatusOr<Response>(bytes.status()));
      Response response;
      if (!response.ParseFromString(*bytes)) {
        return done(absl::StatusOr<Response>(
            absl::InternalError("a response cannot be read")));
      }
      done(absl::StatusOr<Response>(std::move(response)));
    };
    return StartAfter(delay, std::move(call));
  }

  // The call ends with Cancelled, soon, if it has not ended. What it asked for
  // may have been done.
  void Cancel(uint64_t number);

 private:
  struct Attempt;

  void Begin(Attempt* attempt);
  void OnEvent(Attempt* attempt);
  // Whether it is tried again; else `status` is its outcome.
  bool TryAgain(Attempt* attempt, absl::Status* status);
  void Finish(Attempt* attempt, absl::StatusOr<std::string> outcome);

  const ServerConnections* const connections_;
  std::vector<std::unique_ptr<grpc::GenericStub>> stubs_;
  grpc::CompletionQueue* const queue_;

  absl::Mutex mutex_;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t last_number_ ABSL_GUARDED_BY(mutex_) = 0;
  // By number.
  absl::flat_hash_map<uint64_t, std::unique_ptr<Attempt>> attempts_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace oarlock::client

#endif  // OARLOCK_CLIENT_CONTROL_CALLS_H_
