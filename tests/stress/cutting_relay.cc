#include "tests/stress/cutting_relay.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"

namespace oarlock {
namespace {

// Read at a time.
constexpr size_t kChunkBytes = 64 << 10;
constexpr int kBacklog = 128;

sockaddr_in Loopback(uint16_t port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

void SetUp(int socket) {
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) | O_NONBLOCK);
}

}  // namespace

CuttingRelay::CuttingRelay(const CuttingRelayOptions& options,
                           const Clock& clock)
    : options_(options), clock_(clock), random_(options.seed) {}

absl::StatusOr<std::unique_ptr<CuttingRelay>> CuttingRelay::Start(
    const CuttingRelayOptions& options, const Clock& clock) {
  auto relay = absl::WrapUnique(new CuttingRelay(options, clock));
  relay->wake_ = eventfd(0, EFD_CLOEXEC);
  relay->listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(relay->listener_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address = Loopback(options.port);
  socklen_t size = sizeof address;
  auto* const raw = reinterpret_cast<sockaddr*>(&address);
  if (relay->wake_ < 0 || relay->listener_ < 0 ||
      bind(relay->listener_, raw, size) != 0 ||
      listen(relay->listener_, kBacklog) != 0 ||
      getsockname(relay->listener_, raw, &size) != 0) {
    return absl::UnavailableError(absl::StrCat(
        "cannot listen on port ", options.port,
        " of 127.0.0.1: ", std::strerror(errno), "; choose another one"));
  }
  relay->port_ = ntohs(address.sin_port);
  SetUp(relay->listener_);
  relay->DrawNextCut();
  relay->thread_ = std::thread([r = relay.get()] { r->Run(); });
  return relay;
}

CuttingRelay::~CuttingRelay() {
  stop_ = true;
  if (thread_.joinable()) {
    const uint64_t one = 1;
    while (write(wake_, &one, sizeof one) < 0 && errno == EINTR) {
    }
    thread_.join();
  }
  for (Connection& connection : connections_) Close(&connection);
  if (listener_ >= 0) close(listener_);
  if (wake_ >= 0) close(wake_);
}

void CuttingRelay::DrawNextCut() {
  // Exponential: at any time the next one is as near.
  next_cut_ = clock_.Now() +
              options_.mean_cut_interval * -std::log(1 - random_.Uniform());
}

void CuttingRelay::Run() {
  while (!stop_) {
    std::vector<pollfd> polls = {{wake_, POLLIN, 0}, {listener_, POLLIN, 0}};
    for (const Connection& connection : connections_) {
      for (int side = 0; side < 2; ++side) {
        short events = 0;
        // What has not been forwarded yet holds up its sender.
        if (!connection.ended[side] && connection.pending[1 - side].empty()) {
          events |= POLLIN;
        }
        if (!connection.pending[side].empty()) events |= POLLOUT;
        polls.push_back({connection.sockets[side], events, 0});
      }
    }
    if (poll(polls.data(), polls.size(), /*timeout=*/-1) < 0) continue;
    size_t at = 2;
    for (Connection& connection : connections_) {
      for (int side = 0; side < 2; ++side, ++at) {
        const short events = polls[at].revents;
        if (connection.broken || events == 0) continue;
        if (events & POLLOUT) Write(&connection, side);
        if (events & (POLLIN | POLLHUP | POLLERR)) Read(&connection, side);
      }
    }
    connections_.remove_if([](Connection& connection) {
      const bool over = connection.broken ||
                        (connection.notified[0] && connection.notified[1]);
      if (over) Close(&connection);
      return over;
    });
    if (polls[1].revents != 0) Accept();
  }
}

void CuttingRelay::Accept() {
  const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  if (client < 0) return;
  const int target = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = Loopback(options_.target_port);
  Connection& connection = connections_.emplace_back();
  connection.sockets[0] = client;
  connection.sockets[1] = target;
  if (connect(target, reinterpret_cast<const sockaddr*>(&address),
              sizeof address) != 0) {
    Close(&connection);
    connections_.pop_back();
    return;
  }
  SetUp(client);
  SetUp(target);
}

void CuttingRelay::Read(Connection* connection, int side) {
  char chunk[kChunkBytes];
  const ssize_t count = read(connection->sockets[side], chunk, sizeof chunk);
  if (count < 0) {
    if (errno != EAGAIN && errno != EINTR) connection->broken = true;
    return;
  }
  // Both directions are gone.
  if (connection->ended[side]) connection->broken = true;
  const bool cut = count > 0 && clock_.Now() >= next_cut_;
  connection->ended[side] = count == 0;
  connection->pending[1 - side].append(
      chunk, cut ? random_.Below(static_cast<uint64_t>(count))
                 : static_cast<size_t>(count));
  Write(connection, 1 - side);
  if (cut) CutAll();
}

void CuttingRelay::Write(Connection* connection, int side) {
  std::string& pending = connection->pending[side];
  while (!pending.empty()) {
    const ssize_t count = send(connection->sockets[side], pending.data(),
                               pending.size(), MSG_NOSIGNAL);
    if (count < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN) connection->broken = true;
      return;
    }
    pending.erase(0, static_cast<size_t>(count));
  }
  if (connection->ended[1 - side] && !connection->notified[side]) {
    shutdown(connection->sockets[side], SHUT_WR);
    connection->notified[side] = true;
  }
}

void CuttingRelay::CutAll() {
  ++num_cuts_;
  for (Connection& connection : connections_) {
    if (connection.broken) continue;
    connection.broken = true;
    ++num_connections_cut_;
  }
  DrawNextCut();
}

void CuttingRelay::Close(Connection* connection) {
  for (int& socket : connection->sockets) {
    if (socket < 0) continue;
    if (connection->broken) {
      // Closing sends a reset, and drops what has not been sent.
      const linger abrupt = {1, 0};
      setsockopt(socket, SOL_SOCKET, SO_LINGER, &abrupt, sizeof abrupt);
    }
    close(socket);
    socket = -1;
  }
}

}  // namespace oarlock
