#include "cluster/serve.h"

#include <grpcpp/server_builder.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/listen_check.h"
#include "base/status_macros.h"
#include "cluster/retry.h"

namespace oarlock::cluster {

absl::StatusOr<std::unique_ptr<grpc::Server>> Serve(
    const std::string& endpoint, const SecurityOptions& security,
    absl::string_view cannot, grpc::Service* service) {
  OARLOCK_RETURN_IF_ERROR(CheckServable(endpoint, security));
  OARLOCK_ASSIGN_OR_RETURN(auto credentials, MakeServerCredentials(security));
  const auto error = [&](absl::string_view why) {
    return absl::FailedPreconditionError(
        absl::StrCat(cannot, " ", endpoint, ": ", why));
  };
  if (absl::Status status = CheckCanListen(endpoint); !status.ok()) {
    return error(status.message());
  }
  grpc::ServerBuilder builder;
  ApplyServerArguments(&builder);
  int port = 0;
  builder.AddListeningPort(endpoint, std::move(credentials), &port);
  builder.RegisterService(service);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || port == 0) {
    return error("gRPC's lines above say why");
  }
  return server;
}

}  // namespace oarlock::cluster
