// Why a listener cannot be where it should, before a library says so in its
// way: for a name with several addresses gRPC is content with any one of them.

#ifndef OARLOCK_BASE_PROCESS_LISTEN_CHECK_H_
#define OARLOCK_BASE_PROCESS_LISTEN_CHECK_H_

#include <string>

#include "absl/status/status.h"

namespace oarlock {

// OK when a listener on `endpoint` ("host:port", "[::1]:80") would be the only
// one there. AlreadyExists when another socket listens on its port;
// FailedPrecondition when the address is not this machine's or the port is not
// allowed; InvalidArgument when it cannot be understood. Nothing keeps the
// port from being taken a moment later.
absl::Status CheckCanListen(const std::string& endpoint);

// The host of an endpoint as resolvers want it: "[::1]" is "::1".
std::string WithoutBrackets(const std::string& host);

}  // namespace oarlock

#endif  // OARLOCK_BASE_PROCESS_LISTEN_CHECK_H_
