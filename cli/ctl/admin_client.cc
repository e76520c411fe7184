#include "cli/ctl/admin_client.h"

#include <utility>

#include "cluster/connect.h"

namespace oarlock::cli {

absl::StatusOr<std::unique_ptr<AdminClient>> AdminClient::Open(
    const std::string& endpoint, const AdminClientOptions& options) {
  OARLOCK_ASSIGN_OR_RETURN(
      auto credentials,
      cluster::MakeChannelCredentials(options.security,
                                      absl::MakeConstSpan(&endpoint, 1)));
  auto client = std::make_unique<AdminClient>();
  OARLOCK_ASSIGN_OR_RETURN(client->token_,
                           cluster::ReadToken(options.security));
  client->endpoint_ = endpoint;
  client->timeout_ = options.timeout;
  const std::shared_ptr<grpc::Channel> channel = grpc::CreateCustomChannel(
      endpoint, credentials, cluster::MakeChannelArguments());
  client->admin_ = v1::ServerAdminService::NewStub(channel);
  client->coordinator_ = v1::CoordinatorService::NewStub(channel);
  grpc::ClientContext context;
  client->Prepare(&context);
  OARLOCK_RETURN_IF_ERROR(Annotate(
      cluster::Connect(client->admin_.get(), options.job_id, "ctl", &context)
          .status(),
      client->name()));
  return client;
}

absl::StatusOr<std::unique_ptr<JobServers>> JobServers::Open(
    const std::string& endpoint, const AdminClientOptions& options) {
  OARLOCK_ASSIGN_OR_RETURN(std::unique_ptr<AdminClient> asked,
                           AdminClient::Open(endpoint, options));
  v1::ServerStatusResponse status;
  OARLOCK_RETURN_IF_ERROR(
      asked->Call(&v1::ServerAdminService::Stub::GetServerStatus,
                  v1::ServerStatusRequest(), &status));
  if (status.server_index() >=
      static_cast<uint32_t>(status.server_endpoints_size())) {
    return absl::FailedPreconditionError(absl::StrCat(
        "server ", endpoint, " says that it is server ", status.server_index(),
        " of ", status.server_endpoints_size(),
        "; use ctl and servers of one release"));
  }
  auto servers = std::make_unique<JobServers>();
  servers->options_ = options;
  servers->endpoints_.assign(status.server_endpoints().begin(),
                             status.server_endpoints().end());
  servers->clients_.resize(servers->endpoints_.size());
  servers->asked_ = status.server_index();
  servers->clients_[servers->asked_] = std::move(asked);
  return servers;
}

}  // namespace oarlock::cli
