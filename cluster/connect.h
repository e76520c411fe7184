// The first call of every client to a server: do both speak the same version
// of the wire, and is it the job that the client means?

#ifndef OARLOCK_CLUSTER_CONNECT_H_
#define OARLOCK_CLUSTER_CONNECT_H_

#include <grpcpp/client_context.h>

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/v1/server_admin_service.grpc.pb.h"

namespace oarlock::cluster {

// Sends one Connect, without retries. `job_id` is the job that the server must
// belong to; empty means any. `client` goes into the server's log.
// FailedPrecondition: the server speaks another version of the wire, is no
// Oarlock server, or belongs to another job. Else the status of the call.
absl::StatusOr<v1::ConnectResponse> Connect(
    v1::ServerAdminService::StubInterface* stub, std::string_view job_id,
    std::string_view client, grpc::ClientContext* context);

// What a server does with the version that a client's first call names.
// FailedPrecondition: it is not kProtocolVersion.
absl::Status CheckClientVersion(uint32_t version);

}  // namespace oarlock::cluster

#endif  // OARLOCK_CLUSTER_CONNECT_H_
