#include "cluster/loopback.h"

#include <arpa/inet.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace oarlock::cluster {
namespace {

// The host of "host:port", "[host]:port" or "host".
absl::string_view HostOf(absl::string_view endpoint) {
  if (absl::ConsumePrefix(&endpoint, "[")) {
    return endpoint.substr(0, endpoint.find(']'));
  }
  const size_t colon = endpoint.find(':');
  // More than one colon: an IPv6 address without a port.
  if (colon != endpoint.rfind(':')) return endpoint;
  return endpoint.substr(0, colon);
}

// Whether `host` is this host's own name and has loopback addresses alone, as
// Debian gives it 127.0.1.1: whoever connects to it, or listens there, stays on
// this host. Other names are not looked up: what they mean may change.
bool IsOwnNameOnLoopback(const std::string& host) {
  char own[HOST_NAME_MAX + 1] = {};
  if (gethostname(own, sizeof(own) - 1) != 0 ||
      !absl::EqualsIgnoreCase(host, own)) {
    return false;
  }
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return false;
  bool all = found != nullptr;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    all = all &&
          (at->ai_family == AF_INET
               ? (ntohl(reinterpret_cast<const sockaddr_in*>(at->ai_addr)
                            ->sin_addr.s_addr) >>
                  24) == 127
               : at->ai_family == AF_INET6 &&
                     IN6_IS_ADDR_LOOPBACK(
                         &reinterpret_cast<const sockaddr_in6*>(at->ai_addr)
                              ->sin6_addr));
  }
  if (found != nullptr) freeaddrinfo(found);
  return all;
}

}  // namespace

bool IsLoopback(const std::string& endpoint) {
  if (absl::StartsWith(endpoint, "unix:") ||
      absl::StartsWith(endpoint, "unix-abstract:")) {
    return true;
  }
  const std::string host(HostOf(endpoint));
  for (const char* name : {"localhost", "localhost.localdomain",
                           "ip6-localhost", "ip6-loopback"}) {
    if (absl::EqualsIgnoreCase(host, name)) return true;
  }
  in_addr v4;
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) {
    return (ntohl(v4.s_addr) >> 24) == 127;
  }
  in6_addr v6;
  if (inet_pton(AF_INET6, host.c_str(), &v6) == 1) {
    return IN6_IS_ADDR_LOOPBACK(&v6) ||
           (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127);
  }
  return IsOwnNameOnLoopback(host);
}

}  // namespace oarlock::cluster
