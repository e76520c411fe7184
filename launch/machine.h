// What the plan of a job asks of the machine that it is made on.

#ifndef OARLOCK_LAUNCH_MACHINE_H_
#define OARLOCK_LAUNCH_MACHINE_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace oarlock::launch {

// `count` different ports on which nobody listens at this moment, on any
// address of this machine.
absl::StatusOr<std::vector<int>> FreePorts(int count);

// The addresses of this machine's interfaces, IPv6 in brackets. Of loopback
// only the one that it is configured with, 127.0.0.1.
std::vector<std::string> LocalAddresses();

// The address from which this machine would talk to `endpoint` ("host:port"):
// what the route there says, nothing is sent. Unavailable: there is no route,
// or the name is not known.
absl::StatusOr<std::string> SourceAddressTo(const std::string& endpoint);

// Cores that this process may use, at least 1.
int NumCores();

// The functions above, for tests to replace.
struct Machine {
  std::function<int()> num_cores = NumCores;
  std::function<absl::StatusOr<std::vector<int>>(int count)> free_ports =
      FreePorts;
  std::function<std::vector<std::string>()> addresses = LocalAddresses;
  std::function<absl::StatusOr<std::string>(const std::string&)>
      source_address_to = SourceAddressTo;
};

}  // namespace oarlock::launch

#endif  // OARLOCK_LAUNCH_MACHINE_H_
