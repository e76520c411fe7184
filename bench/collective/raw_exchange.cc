// The limit of an all-reduce: two processes, a TCP connection each way over
// loopback, each sends as many bytes as an all-reduce of two ranks does (as
// many as the vector has) and receives as many, both directions at once;
// nothing is added.

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "bench/collective/ranks.h"
#include "bench/common/repetitions.h"

namespace oarlock_bench {
namespace {

constexpr size_t kCallBytes = size_t{1} << 20;
constexpr size_t kMaxBytes = size_t{64} << 20;

// The ends of a connection.
void Connect(int* sockets) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  Require(bind(listener, generic, size) == 0, "bind");
  Require(listen(listener, 1) == 0, "listen");
  Require(getsockname(listener, generic, &size) == 0, "getsockname");
  sockets[0] = socket(AF_INET, SOCK_STREAM, 0);
  Require(connect(sockets[0], generic, size) == 0, "connect");
  sockets[1] = accept(listener, nullptr, nullptr);
  Require(sockets[1] >= 0, "accept");
  const int on = 1;
  for (int i = 0; i < 2; ++i) {
    setsockopt(sockets[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }
}

// Sends and receives `num_bytes`.
void Exchange(int out, int in, char* from, char* to, size_t num_bytes) {
  size_t sent = 0, got = 0;
  while (sent < num_bytes || got < num_bytes) {
    bool moved = false;
    if (sent < num_bytes) {
      const ssize_t count =
          send(out, from + sent, std::min(num_bytes - sent, kCallBytes),
               MSG_DONTWAIT | MSG_NOSIGNAL);
      if (count > 0) sent += static_cast<size_t>(count);
      moved = count > 0;
    }
    if (got < num_bytes) {
      const ssize_t count = recv(
          in, to + got, std::min(num_bytes - got, kCallBytes), MSG_DONTWAIT);
      Require(count != 0, "the other one ended");
      if (count > 0) got += static_cast<size_t>(count);
      moved = moved || count > 0;
    }
    if (moved) continue;
    pollfd fds[] = {{sent < num_bytes ? out : -1, POLLOUT, 0},
                    {got < num_bytes ? in : -1, POLLIN, 0}};
    poll(fds, 2, -1);
  }
}

}  // namespace
}  // namespace oarlock_bench

int main(int argc, char** argv) {
  using namespace oarlock_bench;  // NOLINT: main is a list of measurements
  int there[2], back[2];
  Connect(there);
  Connect(back);
  Ranks ranks(2);
  std::vector<char> from(kMaxBytes, 1), to(kMaxBytes, 1);
  const auto call = [&](const Work& work) {
    Exchange(ranks.rank() == 0 ? there[0] : back[1],
             ranks.rank() == 0 ? back[0] : there[1], from.data(), to.data(),
             work.num_bytes);
  };
  if (ranks.rank() == 1) {
    close(there[0]);
    close(back[0]);
    ranks.Serve(call);
    return 0;
  }
  close(there[1]);
  close(back[1]);
  Repetitions repetitions;
  for (const auto& [name, bytes, calls] : {std::tuple("64 MB", kMaxBytes, 5),
                                           {"32 MB", kMaxBytes / 2, 10},
                                           {"1 MB", kCallBytes, 100},
                                           {"1 KB", size_t{1024}, 1000}}) {
    const Work work = {0, bytes, static_cast<uint64_t>(calls)};
    repetitions.Add(name, [&, work] { return ranks.Measure(work, call); });
  }
  return repetitions.Run(argc, argv);
}
