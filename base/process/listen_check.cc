#include "base/process/listen_check.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace oarlock {
namespace {

// 0, or the errno of an attempt to listen on `address`.
int TryListen(const addrinfo& address) {
  const int fd = socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno;
  // As gRPC does: connections of an earlier process may still be closing.
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  int error = 0;
  if (bind(fd, address.ai_addr, address.ai_addrlen) != 0 ||
      listen(fd, 1) != 0) {
    error = errno;
  }
  close(fd);
  return error;
}

}  // namespace

std::string WithoutBrackets(const std::string& host) {
  const bool has_brackets =
      host.size() > 2 && host.front() == '[' && host.back() == ']';
  return has_brackets ? host.substr(1, host.size() - 2) : host;
}

absl::Status CheckCanListen(const std::string& endpoint) {
  const size_t colon = endpoint.rfind(':');
  int port = 0;
  if (colon == std::string::npos || colon == 0 ||
      !absl::SimpleAtoi(endpoint.substr(colon + 1), &port) || port < 0 ||
      port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot listen on '", endpoint,
                     "'; legal is host:port, for example 127.0.0.1:6170"));
  }
  const std::string host = WithoutBrackets(endpoint.substr(0, colon));
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int failure =
      getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (failure != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "cannot listen on '", endpoint, "': host '", host, "' is not known (",
        gai_strerror(failure), "); give an address of this machine"));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses(found,
                                                                 freeaddrinfo);
  // A name may stand for addresses of which this machine lacks some.
  bool any = false;
  int first_error = 0;
  for (const addrinfo* a = addresses.get(); a != nullptr; a = a->ai_next) {
    const int error = TryListen(*a);
    if (error == EADDRINUSE) {
      return absl::AlreadyExistsError(absl::StrCat(
          "port ", port, " on ", host,
          " is in use by another process; stop that one or choose another "
          "port"));
    }
    any = any || error == 0;
    if (first_error == 0) first_error = error;
  }
  if (any) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "cannot listen on ", endpoint, ": ", std::strerror(first_error),
      "; give an address of this machine and a port that is allowed"));
}

}  // namespace oarlock
