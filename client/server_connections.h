// The channels from one client to all servers of its job.

#ifndef OARLOCK_CLIENT_SERVER_CONNECTIONS_H_
#define OARLOCK_CLIENT_SERVER_CONNECTIONS_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/types.h"
#include "cluster/partition_map.h"
#include "cluster/security.h"
#include "proto/v1/coordinator_service.grpc.pb.h"
#include "proto/v1/server_admin_service.grpc.pb.h"

namespace oarlock::client {

struct ConnectionOptions {
  // "host:port" of every server, in the order of their indices.
  std::vector<std::string> endpoints;
  std::string job_id = "default";
  // "worker 3", "reader" ...: for the servers' logs.
  std::string client_name;
  // How long to wait for servers that do not answer yet.
  absl::Duration connect_timeout = absl::Seconds(60);
  // A call to a server that keeps failing is given up after this time.
  absl::Duration rpc_timeout = absl::Seconds(8);
  // The same in a job with checkpoints, whose servers come back. At least
  // rpc_timeout, which remains the limit of a single attempt.
  absl::Duration server_restart_timeout = absl::Seconds(60);
  // Whether to go on when a server comes back without pushes that it had
  // acknowledged.
  bool accept_loss = false;
  cluster::SecurityOptions security;
  // A library in somebody else's process: called by a thread of the client that
  // ends by an exception, which else ends the process.
  std::function<void(const std::string& what)> on_broken;
  // `monotonic`: of timeouts, backoffs and heartbeats; they outlive the
  // connections.
  Clocks clocks = {};
};

// Thread-safe. Once it is connected nothing changes but the servers'
// generations.
class ServerConnections {
 public:
  struct Server {
    std::string endpoint;
    std::shared_ptr<grpc::Channel> channel;
    std::unique_ptr<v1::ServerAdminService::Stub> admin;
  };
  // What a client has to do at a server that has come back before anything is
  // sent to it.
  using ReturnListener = std::function<absl::Status(ServerIndex)>;

  // Connects to all servers, in any order of starting, and checks that they
  // speak this protocol and belong to this job. Unavailable after the connect
  // timeout, naming the server that is missing; FailedPrecondition at once
  // when a server refuses.
  static absl::StatusOr<std::unique_ptr<ServerConnections>> Connect(
      const ConnectionOptions& options);

  // The same in two steps, so that another thread can Close meanwhile. Create
  // opens no connection.
  static absl::StatusOr<std::unique_ptr<ServerConnections>> Create(
      const ConnectionOptions& options);
  absl::Status Open();
  // Control-plane calls end with Cancelled, those under way at once. For good.
  void Close() const;

  const ConnectionOptions& options() const { return options_; }
  // Measures timeouts, and waits.
  const Clock& clock() const { return *options_.clocks.monotonic; }
  const Clock& wall_clock() const { return *options_.clocks.wall; }
  const std::vector<Server>& servers() const { return servers_; }
  // Calls of it go to server 0: CallWithRetries(ServerIndex(0), ...).
  v1::CoordinatorService::Stub& coordinator() const { return *coordinator_; }
  // The incarnation that requests are meant for.
  Generation generation(ServerIndex server) const {
    return Generation(generations_[server.value()].load());
  }
  const cluster::PartitionMap& partition_map() const { return *partition_map_; }
  uint32_t num_workers() const { return num_workers_; }
  bool has_checkpoints() const { return has_checkpoints_; }
  // The job outlives its workers.
  bool stays() const { return stays_; }
  // XXH64 of the job id: the data plane's short form of it.
  uint64_t job_hash() const { return job_hash_; }

  // What a thread of the client does from its start to its end; see on_broken.
  void RunThread(absl::FunctionRef<void()> body) const;

  // Adds the token to a control-plane call and sets its deadline. The call
  // waits for the connection: a call that fails at once while it is being made
  // leaves nobody to make it, since gRPC connects only while somebody waits
  // (or every 5 s).
  void PrepareToWait(grpc::ClientContext* context,
                     absl::Duration timeout) const;
  // The same without waiting: the data plane watches its channels.
  void Prepare(grpc::ClientContext* context, absl::Duration timeout) const;

  // Makes one control-plane call until it is answered: a failure that the same
  // call may cure is retried with backoff for retry_timeout(), or
  // `give_up_after`. `call` makes one attempt under the context that it is
  // given.
  absl::Status CallWithRetries(
      ServerIndex server,
      absl::FunctionRef<grpc::Status(grpc::ClientContext*)> call) const {
    return CallWithRetries(server, retry_timeout(), call);
  }
  absl::Status CallWithRetries(
      ServerIndex server, absl::Duration give_up_after,
      absl::FunctionRef<grpc::Status(grpc::ClientContext*)> call) const;

  // How long a call to a server that is away is retried.
  absl::Duration retry_timeout() const {
    return has_checkpoints_
               ? std::max(options_.rpc_timeout, options_.server_restart_timeout)
               : options_.rpc_timeout;
  }

  // Another incarnation answers: asks it for its generation, retrying for
  // `timeout`. FailedPrecondition when it is another server or job.
  absl::StatusOr<v1::ConnectResponse> ConnectAnew(ServerIndex server,
                                                  absl::Duration timeout) const;
  // From now on requests are meant for that incarnation.
  void Adopt(ServerIndex server, Generation generation) const {
    generations_[server.value()].store(generation.value());
  }
  // `listener` is called by TellReturn, the one before it not any more. Null:
  // nobody.
  void SetReturnListener(ReturnListener listener) const;
  absl::Status TellReturn(ServerIndex server) const;

  // "server 1 at 127.0.0.1:6171".
  std::string Name(ServerIndex server) const;

 private:
  // A context that Close cancels, for as long as this lives.
  class Cancellable;

  ServerConnections() = default;

  // Waits for `duration`. Cancelled when Close is called.
  absl::Status Pause(absl::Duration duration) const;
  // The response of the server that stands at place `index` of the list.
  // `timeout` is what the deadline was made of, for people.
  absl::StatusOr<v1::ConnectResponse> ConnectOne(uint32_t index,
                                                 absl::Time deadline,
                                                 absl::Duration timeout) const;
  absl::Status TakeJob(const v1::ConnectResponse& response);

  ConnectionOptions options_;
  std::string token_;
  uint64_t job_hash_ = 0;
  std::vector<Server> servers_;
  std::unique_ptr<v1::CoordinatorService::Stub> coordinator_;
  std::unique_ptr<cluster::PartitionMap> partition_map_;
  uint32_t num_workers_ = 0;
  bool has_checkpoints_ = false;
  bool stays_ = false;
  // By server.
  std::unique_ptr<std::atomic<uint64_t>[]> generations_;

  mutable absl::Mutex close_mutex_;
  mutable bool closed_ ABSL_GUARDED_BY(close_mutex_) = false;
  // Of the calls under way.
  mutable absl::flat_hash_set<grpc::ClientContext*> contexts_
      ABSL_GUARDED_BY(close_mutex_);

  // Held while the listener is called.
  mutable absl::Mutex listener_mutex_;
  mutable ReturnListener listener_ ABSL_GUARDED_BY(listener_mutex_);
};

}  // namespace oarlock::client

#endif  // OARLOCK_CLIENT_SERVER_CONNECTIONS_H_
