#include "tests/collective/group_testing.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "collective/sockets.h"

namespace oarlock::collective {

const std::vector<Backend>& Backends() {
  static const auto* const backends =
      new std::vector<Backend>{{"tcp", JoinGroup}};
  return *backends;
}

std::vector<std::string> FreeEndpoints(int count) {
  const pid_t pid = getpid();
  const std::string host =
      absl::StrCat("127.", 1 + pid % 250, ".", pid / 250 % 250, ".1");
  std::vector<Socket> probes;
  std::vector<std::string> endpoints;
  for (int i = 0; i < count; ++i) {
    probes.emplace_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    OARLOCK_CHECK(inet_pton(AF_INET, host.c_str(), &address.sin_addr) == 1);
    socklen_t size = sizeof(address);
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    OARLOCK_CHECK(bind(probes.back().fd(), generic, size) == 0);
    OARLOCK_CHECK(getsockname(probes.back().fd(), generic, &size) == 0);
    endpoints.push_back(
        absl::StrCat(host, ":", static_cast<int>(ntohs(address.sin_port))));
  }
  return endpoints;
}

GroupOptions TestOptions(const std::vector<std::string>& endpoints, int rank) {
  GroupOptions options;
  options.rank = rank;
  options.endpoints = endpoints;
  options.join_timeout = absl::Seconds(60);
  options.operation_timeout = absl::Seconds(120);
  options.heartbeat_timeout = absl::Seconds(10);
  return options;
}

std::vector<absl::Status> RunRanks(
    const Backend& backend, int num_ranks,
    const std::function<absl::Status(Communicator&)>& work,
    const std::function<void(GroupOptions&)>& change) {
  const std::vector<std::string> endpoints = FreeEndpoints(num_ranks);
  std::vector<absl::Status> statuses(num_ranks);
  const auto run = [&](int rank) -> absl::Status {
    GroupOptions options = TestOptions(endpoints, rank);
    if (change) change(options);
    OARLOCK_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> communicator,
                             backend.join(options));
    OARLOCK_RETURN_IF_ERROR(work(*communicator));
    return communicator->Leave();
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < num_ranks; ++rank) {
    threads.emplace_back([&, rank] { statuses[rank] = run(rank); });
  }
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

}  // namespace oarlock::collective
