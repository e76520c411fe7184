#include "cluster/serve.h"

#include <grpcpp/server_builder.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/process/descriptor_limit.h"
#include "base/status_macros.h"
#include "cluster/retry.h"

namespace oarlock::cluster {

absl::StatusOr<std::unique_ptr<ServedService>> Serve(
    const std::string& endpoint, const SecurityOptions& security,
    absl::string_view cannot, grpc::Service* service) {
  // As many as there may be: it is not known here how many peers come.
  OARLOCK_RETURN_IF_ERROR(RaiseDescriptorLimit(/*needed=*/0));
  OARLOCK_RETURN_IF_ERROR(CheckServable(endpoint, security));
  OARLOCK_ASSIGN_OR_RETURN(auto credentials, MakeServerCredentials(security));
  const auto error = [&](absl::string_view why) {
    return absl::FailedPreconditionError(
        absl::StrCat(cannot, " ", endpoint, ": ", why));
  };
  absl::StatusOr<std::unique_ptr<Listener>> listener =
      Listener::Listen(endpoint);
  if (!listener.ok()) return error(listener.status().message());
  grpc::ServerBuilder builder;
  ApplyServerArguments(&builder);
  (*listener)->AddTo(&builder, std::move(credentials));
  builder.RegisterService(service);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) return error("gRPC's lines above say why");
  (*listener)->Start();
  return std::make_unique<ServedService>(*std::move(listener),
                                         std::move(server));
}

}  // namespace oarlock::cluster
