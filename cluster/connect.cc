#include "cluster/connect.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cluster/retry.h"
#include "cluster/wire_version.h"

namespace oarlock::cluster {

absl::StatusOr<v1::ConnectResponse> Connect(
    v1::AdminService::StubInterface* stub, std::string_view job_id,
    std::string_view client, grpc::ClientContext* context) {
  v1::ConnectRequest request;
  request.set_protocol_version(kProtocolVersion);
  request.set_job_id(std::string(job_id));
  request.set_client(std::string(client));
  v1::ConnectResponse response;
  const absl::Status status =
      FromGrpc(stub->Connect(context, request, &response));
  // A server of another version has no such method.
  if (absl::IsUnimplemented(status)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "it has no ", v1::AdminService::service_full_name(),
        "/Connect, so it is no Oarlock server that speaks protocol version ",
        kProtocolVersion, "; use servers and workers of one release"));
  }
  if (!status.ok()) return status;
  return response;
}

}  // namespace oarlock::cluster
