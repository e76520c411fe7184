// One rank as a process, for tests that kill, stop and delay it.
//
//   rank_main WORK [NAME=VALUE...]
//
// Rank and endpoints are the environment's. WORK:
//   sums         some sums against a model, then leaves
//   loop BYTES   all-reduces of that size until something fails; says "running"
//                when the third is over
//   quit         ends after the first all-reduce, of nothing, without leaving
// The last line is "left" or the status that ended it. NAME: join_ms,
// operation_ms, heartbeat_timeout_ms, digest, generation, token_file.

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "cluster/environment.h"
#include "collective/group.h"

namespace oarlock::collective {
namespace {

using Arguments = std::map<std::string, std::string>;

void Set(const Arguments& arguments, const std::string& name,
         absl::Duration* value) {
  int milliseconds;
  if (arguments.count(name) > 0 &&
      absl::SimpleAtoi(arguments.at(name), &milliseconds)) {
    *value = absl::Milliseconds(milliseconds);
  }
}

absl::Status CheckSums(Communicator& communicator) {
  for (const size_t size : {0, 1, 1000, 1025, 1000003}) {
    std::vector<int64_t> values(size);
    for (size_t i = 0; i < size; ++i) values[i] = communicator.rank() * i + 1;
    OARLOCK_RETURN_IF_ERROR(communicator.AllReduceSum(absl::MakeSpan(values)));
    const int64_t n = communicator.size();
    for (size_t i = 0; i < size; ++i) {
      if (values[i] != n * (n - 1) / 2 * static_cast<int64_t>(i) + n) {
        return absl::InternalError("a sum is wrong");
      }
    }
  }
  return communicator.Barrier();
}

absl::Status Loop(Communicator& communicator, size_t num_bytes) {
  std::vector<float> values(num_bytes / sizeof(float));
  for (int step = 1;; ++step) {
    OARLOCK_RETURN_IF_ERROR(communicator.AllReduceSum(absl::MakeSpan(values)));
    if (step == 3) {
      std::printf("running\n");
      std::fflush(stdout);
    }
  }
}

absl::Status Run(const std::vector<std::string>& words) {
  Arguments arguments;
  for (const std::string& word : words) {
    arguments.insert(absl::StrSplit(word, absl::MaxSplits('=', 1)));
  }
  OARLOCK_ASSIGN_OR_RETURN(
      const cluster::RoleAssignment role,
      cluster::ResolveRole(cluster::ReadEnvironment(), {}));
  InitLogging(cluster::RoleName(role));
  GroupOptions options = GroupOptionsOf(role);
  options.join_timeout = absl::Seconds(30);
  Set(arguments, "join_ms", &options.join_timeout);
  Set(arguments, "operation_ms", &options.operation_timeout);
  Set(arguments, "heartbeat_timeout_ms", &options.heartbeat_timeout);
  options.digest = arguments["digest"];
  options.security.token_file = arguments["token_file"];
  if (!arguments["generation"].empty()) {
    OARLOCK_CHECK(
        absl::SimpleAtoi(arguments["generation"], &options.generation));
  }
  OARLOCK_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> communicator,
                           JoinGroup(options));
  if (words[0] == "sums") {
    OARLOCK_RETURN_IF_ERROR(CheckSums(*communicator));
    return communicator->Leave();
  }
  if (words[0] == "loop") {
    size_t num_bytes;
    OARLOCK_CHECK(words.size() > 1 && absl::SimpleAtoi(words[1], &num_bytes));
    return Loop(*communicator, num_bytes);
  }
  OARLOCK_RETURN_IF_ERROR(communicator->AllReduceSum(absl::Span<float>()));
  return absl::CancelledError("quits");
}

}  // namespace
}  // namespace oarlock::collective

int main(int argc, char** argv) {
  const absl::Status status =
      oarlock::collective::Run(std::vector<std::string>(argv + 1, argv + argc));
  std::printf("%s\n", status.ok() ? "left" : status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
