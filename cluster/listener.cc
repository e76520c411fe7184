#include "cluster/listener.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/log.h"
#include "base/process/listen_check.h"
#include "base/status_macros.h"
#include "cluster/retry.h"

namespace oarlock::cluster {
namespace {

// How long a connection waits in the queue before accept is tried again.
constexpr int kRetryMilliseconds = 50;

void SetPort(int port, sockaddr* address) {
  const in_port_t value = htons(static_cast<uint16_t>(port));
  if (address->sa_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(address)->sin6_port = value;
  } else {
    reinterpret_cast<sockaddr_in*>(address)->sin_port = value;
  }
}

int PortOf(const sockaddr_storage& address) {
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

// As gRPC sets its own connections.
void SetOptions(int connection) {
  const int on = 1;
  setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  const int timeout =
      static_cast<int>(absl::ToInt64Milliseconds(kKeepaliveTimeout));
  setsockopt(connection, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout,
             sizeof(timeout));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Listener>> Listener::Listen(
    const std::string& endpoint) {
  OARLOCK_RETURN_IF_ERROR(CheckCanListen(endpoint));
  const size_t colon = endpoint.rfind(':');
  const std::string host = WithoutBrackets(endpoint.substr(0, colon));
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int failure = getaddrinfo(
      host.c_str(), endpoint.substr(colon + 1).c_str(), &hints, &found);
  if (failure != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "cannot listen on ", endpoint, ": ", gai_strerror(failure)));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses(found,
                                                                 freeaddrinfo);
  auto listener = absl::WrapUnique(new Listener);
  listener->stop_event_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  int error = listener->stop_event_ < 0 ? errno : 0;
  for (const addrinfo* a = addresses.get(); error == 0 && a != nullptr;
       a = a->ai_next) {
    const int failed = listener->ListenOn(*a->ai_addr, a->ai_addrlen);
    // A name may stand for addresses of which this machine lacks some.
    if (failed == EADDRINUSE) error = failed;
    if (a->ai_next == nullptr && listener->listeners_.empty()) error = failed;
  }
  if (error != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "cannot listen on ", endpoint, ": ", std::strerror(error)));
  }
  return listener;
}

absl::StatusOr<std::unique_ptr<Listener>> Listener::Take(
    std::vector<int> descriptors) {
  auto listener = absl::WrapUnique(new Listener);
  listener->listeners_ = std::move(descriptors);
  for (const int descriptor : listener->listeners_) {
    sockaddr_storage bound = {};
    socklen_t size = sizeof(bound);
    int listens = 0;
    socklen_t listens_size = sizeof(listens);
    if (getsockname(descriptor, reinterpret_cast<sockaddr*>(&bound), &size) !=
            0 ||
        getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens,
                   &listens_size) != 0 ||
        listens == 0) {
      listener->listeners_.clear();  // They stay the caller's.
      return absl::InvalidArgumentError(
          absl::StrCat("descriptor ", descriptor,
                       " is no socket that listens; leave OARLOCK_LISTEN_FD to "
                       "the program that starts the servers"));
    }
    fcntl(descriptor, F_SETFD, FD_CLOEXEC);
    fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK);
    listener->port_ = PortOf(bound);
  }
  listener->stop_event_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (listener->stop_event_ < 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no event descriptor: ", std::strerror(errno)));
  }
  return listener;
}

absl::StatusOr<std::vector<int>> Listener::DuplicateSockets() const {
  std::vector<int> sockets;
  for (const int listener : listeners_) {
    const int fd = fcntl(listener, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) {
      const int error = errno;
      for (const int made : sockets) close(made);
      return absl::ResourceExhaustedError(absl::StrCat(
          "no descriptor for port ", port_, ": ", std::strerror(error)));
    }
    sockets.push_back(fd);
  }
  return sockets;
}

int Listener::ListenOn(const sockaddr& address, socklen_t size) {
  const int fd =
      socket(address.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno;
  // Connections of an earlier process may still be closing.
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_storage bound = {};
  std::memcpy(&bound, &address, size);
  // All addresses of a name get the same free port.
  if (port_ != 0) SetPort(port_, reinterpret_cast<sockaddr*>(&bound));
  if (bind(fd, reinterpret_cast<const sockaddr*>(&bound), size) != 0 ||
      listen(fd, SOMAXCONN) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size) != 0) {
    const int error = errno;
    close(fd);
    return error;
  }
  port_ = PortOf(bound);
  listeners_.push_back(fd);
  return 0;
}

Listener::~Listener() {
  Stop();
  if (stop_event_ >= 0) close(stop_event_);
}

void Listener::AddTo(grpc::ServerBuilder* builder,
                     std::shared_ptr<grpc::ServerCredentials> credentials) {
  acceptor_ = builder->experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      std::move(credentials));
}

void Listener::Start() {
  OARLOCK_CHECK(acceptor_ != nullptr);
  thread_ = std::thread([this] { Run(); });
}

void Listener::Stop() {
  if (thread_.joinable()) {
    const uint64_t one = 1;
    OARLOCK_CHECK(write(stop_event_, &one, sizeof(one)) == sizeof(one));
    thread_.join();
  }
  for (const int listener : std::exchange(listeners_, {})) close(listener);
}

void Listener::Run() {
  std::vector<pollfd> waits = {{stop_event_, POLLIN, 0}};
  for (const int listener : listeners_) waits.push_back({listener, POLLIN, 0});
  for (;;) {
    if (poll(waits.data(), waits.size(), -1) < 0) continue;
    if (waits[0].revents != 0) return;
    bool all_accepted = true;
    for (size_t i = 1; i < waits.size(); ++i) {
      if (waits[i].revents != 0 && !AcceptFrom(waits[i].fd)) {
        all_accepted = false;
      }
    }
    // Who waits stays in the queue; stopping goes on meanwhile.
    if (!all_accepted) poll(waits.data(), 1, kRetryMilliseconds);
  }
}

bool Listener::AcceptFrom(int listener) {
  const int fd =
      accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd >= 0) {
    if (std::exchange(short_of_descriptors_, false)) {
      Log().info("port {}: connections are accepted again", port_);
    }
    SetOptions(fd);
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters
        connection;
    connection.listener_fd = listener;
    connection.fd = fd;
    acceptor_->HandleNewConnection(&connection);
    return true;
  }
  const bool is_short =
      errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
  if (is_short && !std::exchange(short_of_descriptors_, true)) {
    Log().warn(
        "port {}: connections wait, since none can be accepted ({}); those "
        "that are open go on; raise the limit of open files (ulimit -n)",
        port_, std::strerror(errno));
  }
  // Anything else is of this one connection, which is gone.
  return !is_short;
}

}  // namespace oarlock::cluster
