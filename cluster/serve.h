// Begins to serve.

#ifndef OARLOCK_CLUSTER_SERVE_H_
#define OARLOCK_CLUSTER_SERVE_H_

#include <grpcpp/server.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "cluster/listener.h"
#include "cluster/security.h"

namespace oarlock::cluster {

// A server of one service, and where its connections come in.
class ServedService {
 public:
  ServedService(std::unique_ptr<Listener> listener,
                std::unique_ptr<grpc::Server> server)
      : listener_(std::move(listener)), server_(std::move(server)) {}
  ~ServedService() { listener_->Stop(); }

  // Ends calls that are still there after `grace`.
  void Shutdown(absl::Duration grace) {
    listener_->Stop();
    server_->Shutdown(GrpcDeadline(grace));
  }

 private:
  const std::unique_ptr<Listener> listener_;
  const std::unique_ptr<grpc::Server> server_;
};

// Serves `service`, which outlives the server, at `endpoint` ("host:port").
// Errors of CheckServable and MakeServerCredentials; FailedPrecondition when
// nobody can listen there:
// "<cannot> <endpoint>: <why>", where `cannot` is "rank 0 cannot serve the
// rendezvous at".
absl::StatusOr<std::unique_ptr<ServedService>> Serve(
    const std::string& endpoint, const SecurityOptions& security,
    absl::string_view cannot, grpc::Service* service);

}  // namespace oarlock::cluster

#endif  // OARLOCK_CLUSTER_SERVE_H_
