// Where the connections of a gRPC server come in.
//
// When no file descriptor is left, gRPC's own listener (1.51) ends for good:
// who is connected goes on, and nobody else ever gets in. This one leaves the
// connection in the kernel's queue until a descriptor is free.

#ifndef OARLOCK_CLUSTER_LISTENER_H_
#define OARLOCK_CLUSTER_LISTENER_H_

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <sys/socket.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"

namespace oarlock::cluster {

// Life: Listen; AddTo before the gRPC server is built; Start when it serves;
// Stop before it is shut down.
class Listener {
 public:
  // Listens on all addresses of `endpoint` ("host:port"; port 0: a free one)
  // that this machine has. Errors of CheckCanListen.
  static absl::StatusOr<std::unique_ptr<Listener>> Listen(
      const std::string& endpoint);
  // Takes sockets that listen already on one port, and closes them in the end.
  // InvalidArgument: one of them is none.
  static absl::StatusOr<std::unique_ptr<Listener>> Take(
      std::vector<int> descriptors);
  ~Listener();

  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  int port() const { return port_; }
  // One of its sockets. REQUIRES: Stop was not called.
  int descriptor() const { return listeners_.front(); }
  // New descriptors of its sockets, for another one that takes its place: who
  // connects between the two waits. ResourceExhausted: there are no more.
  absl::StatusOr<std::vector<int>> DuplicateSockets() const;

  // Call once each.
  void AddTo(grpc::ServerBuilder* builder,
             std::shared_ptr<grpc::ServerCredentials> credentials);
  void Start();
  // Closes the port. Idempotent.
  void Stop();

 private:
  Listener() = default;
  // Binds and listens; sets port_ where it is 0. 0 or errno.
  int ListenOn(const sockaddr& address, socklen_t size);
  void Run();
  // False: accept has failed for want of something.
  bool AcceptFrom(int listener);

  int port_ = 0;
  std::vector<int> listeners_;
  // Readable: the thread ends.
  int stop_event_ = -1;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  // Whether the log says that connections wait.
  bool short_of_descriptors_ = false;
  std::thread thread_;
};

}  // namespace oarlock::cluster

#endif  // OARLOCK_CLUSTER_LISTENER_H_
