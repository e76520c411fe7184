#include "cluster/connect.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cluster/retry.h"
#include "cluster/wire_version.h"

namespace oarlock::cluster {

absl::StatusOr<v1::ConnectResponse> Connect(
    v1::ServerAdminService::StubInterface* stub, std::string_view job_id,
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
        "it has no ", v1::ServerAdminService::service_full_name(),
        "/Connect, so it speaks protocol version 1 or is no Oarlock server; "
        "this program speaks ",
        kProtocolVersion, "; use servers and workers of one release"));
  }
  if (!status.ok()) return status;
  return response;
}

absl::Status CheckClientVersion(uint32_t version) {
  if (version == kProtocolVersion) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the client speaks protocol version ", version, ", this server ",
      kProtocolVersion, "; use servers and workers of one release"));
}

}  // namespace oarlock::cluster
