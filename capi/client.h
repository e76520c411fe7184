// What an oarlock_client is: a job's servers, and the session with them once it
// is connected.

#ifndef OARLOCK_CAPI_CLIENT_H_
#define OARLOCK_CAPI_CLIENT_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "capi/operation.h"
#include "capi/outcome.h"
#include "capi/session.h"
#include "client/messages/frame_messages.h"
#include "client/server_connections.h"
#include "proto/config/client_config.pb.h"

namespace oarlock::capi {

// Thread-safe. At most four threads beside gRPC's: three that take responses
// and connect anew, and the worker's heartbeat. Another one lives while it
// connects or leaves, when there are fewer of the others.
class Client {
 public:
  // Errors: InvalidArgument, NotFound (a file that the configuration names).
  static absl::StatusOr<std::shared_ptr<Client>> Create(
      const v1::ClientConfig& config);
  // REQUIRES: Close was called.
  ~Client() = default;

  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  int event_descriptor() { return event_->descriptor(); }

  // An operation of this client.
  std::shared_ptr<Operation> NewOperation(const Operation::Options& options);

  // Null `join`: as a reader. FailedPrecondition: it is connected. Who has left
  // may join again.
  absl::Status Connect(const v1::JoinConfig* join,
                       std::shared_ptr<Operation> operation);
  absl::Status SetRounds(bool joins, std::shared_ptr<Operation> operation);
  absl::Status SumEvaluation(const WorkId& work,
                             std::shared_ptr<Operation> operation);
  absl::Status Leave(const Session::Leaving& leaving,
                     std::shared_ptr<Operation> operation);

  // FailedPrecondition: it is not connected. OARLOCK_BROKEN after Break.
  Outcome FindSession(std::shared_ptr<Session>* session) const;

  // An invariant is broken: all operations end, and nothing is done any more.
  void Break(const std::string& what);

  // Cancels everything and ends all threads, unless it is broken: then what
  // its threads may use stays.
  void Close();

 private:
  enum class State { kNew, kConnecting, kOpen, kLeaving, kLeft, kClosed };

  Client(client::ConnectionOptions options, const client::ValueFormats& formats)
      : options_(std::move(options)), formats_(formats) {}

  // On a thread of its own.
  absl::StatusOr<std::string> RunConnect(const v1::JoinConfig* join,
                                         Operation* operation);
  absl::StatusOr<std::string> DoConnect(const v1::JoinConfig* join);
  // The thread that connects, joins rounds, sums up or leaves: `operation` ends
  // with what `run` returns. FailedPrecondition: it is at one of these.
  absl::Status StartThread(std::shared_ptr<Operation> operation,
                           std::function<absl::StatusOr<std::string>()> run)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  client::ConnectionOptions options_;
  const client::ValueFormats formats_;
  const std::shared_ptr<EndEvent> event_ = std::make_shared<EndEvent>();

  mutable absl::Mutex mutex_;
  State state_ ABSL_GUARDED_BY(mutex_) = State::kNew;
  // Empty: it works.
  std::string broken_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<Session> session_ ABSL_GUARDED_BY(mutex_);
  // While it connects: what Close closes.
  client::ServerConnections* connecting_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::thread thread_ ABSL_GUARDED_BY(mutex_);
  // It still runs.
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::weak_ptr<Operation>> operations_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace oarlock::capi

#endif  // OARLOCK_CAPI_CLIENT_H_
