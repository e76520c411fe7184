// Which endpoints are this machine's alone.

#ifndef OARLOCK_CLUSTER_LOOPBACK_H_
#define OARLOCK_CLUSTER_LOOPBACK_H_

#include <string>

namespace oarlock::cluster {

// Whether `endpoint` ("host:port", "[::1]:80") names this machine's loopback.
bool IsLoopback(const std::string& endpoint);

}  // namespace oarlock::cluster

#endif  // OARLOCK_CLUSTER_LOOPBACK_H_
