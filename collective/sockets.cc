#include "collective/sockets.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/process/listen_check.h"
#include "base/status_macros.h"
#include "cluster/endpoint.h"
#include "cluster/security.h"

namespace oarlock::collective {
namespace {

constexpr char kMagic[8] = {'O', 'A', 'R', 'L', 'O', 'C', 'K', '1'};
// A rank sends its handshake at once; only a stranger lets wait for it.
constexpr absl::Duration kHandshakeTimeout = absl::Seconds(2);
// How often a waiting thread looks whether the group has failed.
constexpr absl::Duration kWakeInterval = absl::Milliseconds(50);
// More than the ranks' connections at any one time.
constexpr int kBacklog = 64;
// Connections whose handshake is awaited; one more drops the oldest.
constexpr size_t kMaxArrivals = 64;

// A handshake as it is sent. Plain numbers of one kind of machine: all ranks
// run the same program.
struct WireHandshake {
  char magic[sizeof(kMagic)];
  char secret[kSecretBytes];
  uint32_t communicator;
  uint32_t from_rank;
};

WireHandshake ToWire(const Handshake& handshake) {
  OARLOCK_CHECK(handshake.secret.size() == kSecretBytes);
  WireHandshake wire;
  std::memcpy(wire.magic, kMagic, sizeof(kMagic));
  std::memcpy(wire.secret, handshake.secret.data(), kSecretBytes);
  wire.communicator = handshake.communicator;
  wire.from_rank = handshake.from_rank;
  return wire;
}

absl::Status Errno(absl::string_view what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(errno)));
}

void SetNoDelay(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

struct AddressList {
  ~AddressList() {
    if (list != nullptr) freeaddrinfo(list);
  }
  addrinfo* list = nullptr;
};

absl::Status Resolve(const std::string& host, const std::string& port,
                     AddressList* addresses) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  const int error = getaddrinfo(WithoutBrackets(host).c_str(), port.c_str(),
                                &hints, &addresses->list);
  if (error == 0) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("the name ", host, ": ", gai_strerror(error)));
}

}  // namespace

Socket::~Socket() {
  if (fd_ >= 0) close(fd_);
}

absl::Status AwaitSocket(const Clock& clock, int fd, short events, int wake_fd,
                         absl::Time deadline) {
  while (true) {
    pollfd fds[] = {{wake_fd, POLLIN, 0}, {fd, events, 0}};
    const absl::Duration left = deadline - clock.Now();
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError("no time is left");
    }
    const timespec timeout = absl::ToTimespec(std::min(left, absl::Hours(1)));
    const int ready = ppoll(fds, 2, &timeout, nullptr);
    if (ready < 0 && errno != EINTR) return Errno("poll");
    if (ready <= 0) continue;
    if (fds[0].revents != 0) return absl::CancelledError("woken");
    if (fds[1].revents != 0) return absl::OkStatus();
  }
}

absl::StatusOr<Socket> ConnectTo(const Clock& clock, const std::string& address,
                                 const Handshake& handshake, int wake_fd,
                                 absl::Time deadline) {
  OARLOCK_ASSIGN_OR_RETURN(const cluster::Endpoint endpoint,
                           cluster::ParseEndpoint(address));
  AddressList addresses;
  OARLOCK_RETURN_IF_ERROR(
      Resolve(endpoint.host, absl::StrCat(endpoint.port), &addresses));
  absl::Status status = absl::UnavailableError("no address");
  for (const addrinfo* at = addresses.list; at != nullptr; at = at->ai_next) {
    Socket connection(
        socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (connection.fd() < 0) {
      status = Errno("socket");
      continue;
    }
    SetNoDelay(connection.fd());
    if (connect(connection.fd(), at->ai_addr, at->ai_addrlen) != 0 &&
        errno != EINPROGRESS) {
      status = Errno(absl::StrCat("connect to ", address));
      continue;
    }
    OARLOCK_RETURN_IF_ERROR(
        AwaitSocket(clock, connection.fd(), POLLOUT, wake_fd, deadline));
    socklen_t size = sizeof(errno);
    getsockopt(connection.fd(), SOL_SOCKET, SO_ERROR, &errno, &size);
    if (errno != 0) {
      status = Errno(absl::StrCat("connect to ", address));
      continue;
    }
    const WireHandshake wire = ToWire(handshake);
    // Fits into the empty buffer of a new connection.
    if (send(connection.fd(), &wire, sizeof(wire), MSG_NOSIGNAL) !=
        sizeof(wire)) {
      return Errno(absl::StrCat("handshake with ", address));
    }
    return connection;
  }
  return status;
}

absl::StatusOr<std::unique_ptr<RingAcceptor>> RingAcceptor::Open(
    const std::string& host, const Clock& clock) {
  AddressList addresses;
  OARLOCK_RETURN_IF_ERROR(Resolve(host, "0", &addresses));
  Socket listener;
  sockaddr_storage bound = {};
  for (const addrinfo* at = addresses.list; at != nullptr; at = at->ai_next) {
    Socket candidate(
        socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    socklen_t size = sizeof(bound);
    if (candidate.fd() >= 0 &&
        bind(candidate.fd(), at->ai_addr, at->ai_addrlen) == 0 &&
        listen(candidate.fd(), kBacklog) == 0 &&
        getsockname(candidate.fd(), reinterpret_cast<sockaddr*>(&bound),
                    &size) == 0) {
      listener = std::move(candidate);
      break;
    }
  }
  if (listener.fd() < 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "cannot listen on ", host, ": ", std::strerror(errno),
        "; the endpoint of this rank has to be an address of this machine"));
  }
  Socket closing(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (closing.fd() < 0) return Errno("eventfd");
  const in_port_t port =
      bound.ss_family == AF_INET6
          ? reinterpret_cast<sockaddr_in6*>(&bound)->sin6_port
          : reinterpret_cast<sockaddr_in*>(&bound)->sin_port;
  return absl::WrapUnique(
      new RingAcceptor(clock, std::move(listener), std::move(closing),
                       absl::StrCat(host, ":", static_cast<int>(ntohs(port)))));
}

RingAcceptor::~RingAcceptor() {
  if (!thread_.joinable()) return;
  const uint64_t one = 1;
  OARLOCK_CHECK(write(closing_.fd(), &one, sizeof(one)) == sizeof(one));
  thread_.join();
}

void RingAcceptor::Start(const std::string& secret) {
  secret_ = secret;
  thread_ = std::thread([this] { Run(); });
}

struct RingAcceptor::Arrival {
  Socket connection;
  absl::Time deadline;
  WireHandshake wire = {};
  // Bytes of it that are here.
  size_t got = 0;
};

void RingAcceptor::Run() {
  std::deque<Arrival> arrivals;
  for (;;) {
    std::vector<pollfd> waits = {{closing_.fd(), POLLIN, 0},
                                 {listener_.fd(), POLLIN, 0}};
    for (const Arrival& arrival : arrivals) {
      waits.push_back({arrival.connection.fd(), POLLIN, 0});
    }
    const int timeout =
        arrivals.empty()
            ? -1
            : static_cast<int>(absl::ToInt64Milliseconds(kWakeInterval));
    if (poll(waits.data(), waits.size(), timeout) < 0) continue;
    if (waits[0].revents != 0) return;
    const absl::Time now = clock_.Now();
    // One stranger that is silent keeps nobody else out.
    size_t at = 2;
    std::erase_if(arrivals, [&](Arrival& arrival) {
      const bool readable = waits[at++].revents != 0;
      return (readable && Receive(&arrival)) || now > arrival.deadline;
    });
    if (waits[1].revents == 0) continue;
    Socket connection(accept4(listener_.fd(), nullptr, nullptr,
                              SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (connection.fd() >= 0) {
      if (arrivals.size() == kMaxArrivals) arrivals.pop_front();
      arrivals.push_back({.connection = std::move(connection),
                          .deadline = now + kHandshakeTimeout});
    } else {
      // Too many open files, for example: it stays in the queue.
      AwaitSocket(clock_, -1, 0, closing_.fd(), clock_.Now() + kWakeInterval)
          .IgnoreError();
    }
  }
}

bool RingAcceptor::Receive(Arrival* arrival) {
  WireHandshake& wire = arrival->wire;
  const ssize_t count = recv(arrival->connection.fd(),
                             reinterpret_cast<char*>(&wire) + arrival->got,
                             sizeof(wire) - arrival->got, 0);
  if (count < 0) return errno != EAGAIN && errno != EINTR;
  if (count == 0) return true;
  arrival->got += static_cast<size_t>(count);
  if (arrival->got < sizeof(wire)) return false;
  if (std::memcmp(wire.magic, kMagic, sizeof(kMagic)) != 0 ||
      !cluster::TokensEqual(std::string(wire.secret, kSecretBytes), secret_)) {
    Log().warn("{}: dropped a connection that is not of this group", address_);
    return true;
  }
  SetNoDelay(arrival->connection.fd());
  absl::MutexLock lock(&mutex_);
  waiting_.insert_or_assign({wire.communicator, wire.from_rank},
                            std::move(arrival->connection));
  return true;
}

absl::StatusOr<Socket> RingAcceptor::Await(uint32_t communicator,
                                           uint32_t from_rank, int wake_fd,
                                           absl::Time deadline) {
  const std::pair<uint32_t, uint32_t> key = {communicator, from_rank};
  const auto here = [this, &key]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return waiting_.count(key) > 0;
  };
  absl::MutexLock lock(&mutex_);
  while (!here()) {
    pollfd woken = {wake_fd, POLLIN, 0};
    if (poll(&woken, 1, 0) > 0) return absl::CancelledError("woken");
    if (clock_.Now() > deadline) {
      return absl::DeadlineExceededError("no time is left");
    }
    clock_.AwaitFor(&mutex_, absl::Condition(&here), kWakeInterval);
  }
  Socket connection = std::move(waiting_[key]);
  waiting_.erase(key);
  return connection;
}

}  // namespace oarlock::collective
