// Credentials of servers and clients: plain text on loopback, TLS and a token
// beyond it.

#ifndef OARLOCK_CLUSTER_SECURITY_H_
#define OARLOCK_CLUSTER_SECURITY_H_

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_context.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cluster/security_options.h"

namespace oarlock::cluster {

// FailedPrecondition (one line, says what to give) when `endpoint` is beyond
// loopback and neither TLS with a token nor `insecure` is given;
// InvalidArgument when only some of the TLS files are; NotFound for a file
// that cannot be read.
absl::Status CheckServable(const std::string& endpoint,
                           const SecurityOptions& options);

// Mutual TLS when files are given, plain text otherwise.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(
    const SecurityOptions& options);
// For calls to `endpoints`. FailedPrecondition where the token would go beyond
// loopback in plain text, unless options.insecure.
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>>
MakeChannelCredentials(const SecurityOptions& options,
                       absl::Span<const std::string> endpoints);

// The token, or an empty string without a token file. Clients send it as
// metadata `kTokenMetadataKey`; servers compare it in constant time on every
// call (control plane and data plane).
absl::StatusOr<std::string> ReadToken(const SecurityOptions& options);
inline constexpr char kTokenMetadataKey[] = "oarlock-token";
// Equal, in a time that tells nothing of where they differ.
bool TokensEqual(const std::string& a, const std::string& b);
// Unauthenticated unless the call carries `token`; an empty one demands
// nothing.
absl::Status CheckToken(const grpc::ServerContextBase& call,
                        const std::string& token);

}  // namespace oarlock::cluster

#endif  // OARLOCK_CLUSTER_SECURITY_H_
