// Groups on loopback for tests: ranks as threads, and the backends that the
// conformance suite runs against.

#ifndef OARLOCK_TESTS_COLLECTIVE_GROUP_TESTING_H_
#define OARLOCK_TESTS_COLLECTIVE_GROUP_TESTING_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collective/communicator.h"
#include "collective/group.h"

namespace oarlock::collective {

// Something that joins a group: each implementation of Communicator registers
// here and gets the whole suite.
struct Backend {
  std::string name;
  std::function<absl::StatusOr<std::unique_ptr<Communicator>>(
      const GroupOptions&)>
      join;
};
const std::vector<Backend>& Backends();

// Endpoints with ports that are free now. Of a loopback address of this
// process's own, so that tests at the same time do not meet.
std::vector<std::string> FreeEndpoints(int count);

// For `rank`: quick to notice deaths, slow to fail on a busy machine.
GroupOptions TestOptions(const std::vector<std::string>& endpoints, int rank);

// Runs `work` as every rank at once, in threads, each with a communicator of
// its own; leaves the group where it succeeded. The status of each rank.
std::vector<absl::Status> RunRanks(
    const Backend& backend, int num_ranks,
    const std::function<absl::Status(Communicator&)>& work,
    const std::function<void(GroupOptions&)>& change = nullptr);

}  // namespace oarlock::collective

#endif  // OARLOCK_TESTS_COLLECTIVE_GROUP_TESTING_H_
