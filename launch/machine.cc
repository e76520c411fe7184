#include "launch/machine.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/process/listen_check.h"
#include "base/status_macros.h"
#include "cluster/endpoint.h"

namespace oarlock::launch {
namespace {

// As endpoints write it; empty for another family's.
std::string TextOf(const sockaddr& address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address.sa_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    inet_ntop(AF_INET, &v4.sin_addr, text, sizeof(text));
    return text;
  }
  if (address.sa_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
    inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof(text));
    return absl::StrCat("[", text, "]");
  }
  return "";
}

}  // namespace

absl::StatusOr<std::vector<int>> FreePorts(int count) {
  // All sockets are open at once, so that no port is given twice.
  std::vector<int> sockets;
  absl::Cleanup close_all = [&] {
    for (int fd : sockets) close(fd);
  };
  std::vector<int> ports;
  for (int i = 0; i < count; ++i) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0) sockets.push_back(fd);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_ANY);
    socklen_t size = sizeof(address);
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    if (fd < 0 || bind(fd, generic, size) != 0 ||
        getsockname(fd, generic, &size) != 0) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "no free port for process ", i + 1, " of ", count, ": ",
          std::strerror(errno), "; give --start_port or fewer processes"));
    }
    ports.push_back(ntohs(address.sin_port));
  }
  return ports;
}

std::vector<std::string> LocalAddresses() {
  std::vector<std::string> addresses;
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return addresses;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> all(first, freeifaddrs);
  for (const ifaddrs* each = first; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr) continue;
    std::string text = TextOf(*each->ifa_addr);
    if (!text.empty()) addresses.push_back(std::move(text));
  }
  return addresses;
}

int NumCores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof(cores), &cores) != 0) return 1;
  return std::max(1, CPU_COUNT(&cores));
}

absl::StatusOr<std::string> SourceAddressTo(const std::string& endpoint) {
  OARLOCK_ASSIGN_OR_RETURN(const cluster::Endpoint there,
                           cluster::ParseEndpoint(endpoint));
  const auto no_way = [&](absl::string_view why) {
    return absl::UnavailableError(
        absl::StrCat("this machine finds no way to ", endpoint, ": ", why,
                     "; look at the name and the network, or say by --node_ip "
                     "which address of this machine others reach"));
  };
  addrinfo hints = {};
  hints.ai_socktype = SOCK_DGRAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int failure =
      getaddrinfo(WithoutBrackets(there.host).c_str(),
                  std::to_string(there.port).c_str(), &hints, &found);
  if (failure != 0) return no_way(gai_strerror(failure));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses(found,
                                                                 freeaddrinfo);
  int error = 0;
  for (const addrinfo* a = found; a != nullptr; a = a->ai_next) {
    const int fd = socket(a->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    absl::Cleanup close_it = [fd] {
      if (fd >= 0) close(fd);
    };
    sockaddr_storage own = {};
    socklen_t size = sizeof(own);
    auto* generic = reinterpret_cast<sockaddr*>(&own);
    // Connecting a datagram socket asks the routing table and no more.
    if (fd < 0 || connect(fd, a->ai_addr, a->ai_addrlen) != 0 ||
        getsockname(fd, generic, &size) != 0) {
      error = errno;
      continue;
    }
    return TextOf(*generic);
  }
  return no_way(std::strerror(error));
}

}  // namespace oarlock::launch
