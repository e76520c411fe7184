// Calls of people's tools to the control plane of running servers.

#ifndef OARLOCK_CLI_CTL_ADMIN_CLIENT_H_
#define OARLOCK_CLI_CTL_ADMIN_CLIENT_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "cluster/retry.h"
#include "cluster/security.h"
#include "proto/v1/coordinator_service.grpc.pb.h"
#include "proto/v1/server_admin_service.grpc.pb.h"

namespace oarlock::cli {

struct AdminClientOptions {
  cluster::SecurityOptions security;
  // Empty: any job.
  std::string job_id;
  // Of a call.
  absl::Duration timeout = absl::Seconds(5);
};

// A connection to one server. One thread at a time.
class AdminClient {
 public:
  // FailedPrecondition when the server belongs to another job or speaks another
  // version of the wire; Unavailable when it does not answer; errors of what
  // SecurityOptions name.
  static absl::StatusOr<std::unique_ptr<AdminClient>> Open(
      const std::string& endpoint, const AdminClientOptions& options);

  // Calls a method of ServerAdminService::Stub or CoordinatorService::Stub.
  // Only server 0 answers the latter. Errors say which server.
  template <typename Stub, typename Request, typename Response>
  absl::Status Call(grpc::Status (Stub::*method)(grpc::ClientContext*,
                                                 const Request&, Response*),
                    const Request& request, Response* response) {
    grpc::ClientContext context;
    Prepare(&context);
    return Annotate(
        cluster::FromGrpc((stub<Stub>().*method)(&context, request, response)),
        name());
  }

 private:
  std::string name() const { return absl::StrCat("server ", endpoint_); }
  void Prepare(grpc::ClientContext* context) const {
    context->set_deadline(GrpcDeadline(timeout_));
    if (!token_.empty())
      context->AddMetadata(cluster::kTokenMetadataKey, token_);
  }

  template <typename Stub>
  Stub& stub() const {
    if constexpr (std::is_same_v<Stub, v1::CoordinatorService::Stub>) {
      return *coordinator_;
    } else {
      return *admin_;
    }
  }

  std::string endpoint_;
  std::string token_;
  absl::Duration timeout_;
  std::unique_ptr<v1::ServerAdminService::Stub> admin_;
  std::unique_ptr<v1::CoordinatorService::Stub> coordinator_;
};

// Connections to all servers of a job, found through one of them.
class JobServers {
 public:
  // Asks the server at `endpoint` for the others. Errors of AdminClient::Open
  // and of that call.
  static absl::StatusOr<std::unique_ptr<JobServers>> Open(
      const std::string& endpoint, const AdminClientOptions& options);

  size_t size() const { return endpoints_.size(); }
  const std::string& endpoint(size_t server) const {
    return endpoints_[server];
  }
  // The server that the others were found through.
  AdminClient& asked() { return *clients_[asked_]; }

  // Calls a method of one server. REQUIRES: server < size().
  template <typename Stub, typename Request, typename Response>
  absl::StatusOr<Response> Ask(
      size_t server,
      grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                   Response*),
      const Request& request) {
    if (clients_[server] == nullptr) {
      auto client = AdminClient::Open(endpoints_[server], options_);
      if (!client.ok()) return client.status();
      clients_[server] = *std::move(client);
    }
    Response response;
    const absl::Status status =
        clients_[server]->Call(method, request, &response);
    if (!status.ok()) return status;
    return response;
  }

 private:
  AdminClientOptions options_;
  std::vector<std::string> endpoints_;
  // Null until it is asked.
  std::vector<std::unique_ptr<AdminClient>> clients_;
  size_t asked_ = 0;
};

}  // namespace oarlock::cli

#endif  // OARLOCK_CLI_CTL_ADMIN_CLIENT_H_
