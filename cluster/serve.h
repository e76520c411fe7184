// Begins to serve.

#ifndef OARLOCK_CLUSTER_SERVE_H_
#define OARLOCK_CLUSTER_SERVE_H_

#include <grpcpp/server.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cluster/security.h"

namespace oarlock::cluster {

// Serves `service`, which outlives the server, at `endpoint` ("host:port").
// Errors of CheckServable and MakeServerCredentials; FailedPrecondition when
// nobody can listen there:
// "<cannot> <endpoint>: <why>", where `cannot` is "rank 0 cannot serve the
// rendezvous at".
absl::StatusOr<std::unique_ptr<grpc::Server>> Serve(
    const std::string& endpoint, const SecurityOptions& security,
    absl::string_view cannot, grpc::Service* service);

}  // namespace oarlock::cluster

#endif  // OARLOCK_CLUSTER_SERVE_H_
