// The fuzz target of ResolveRole on environments made from seeds.

#include <gtest/gtest.h>

#include <iterator>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/random.h"
#include "cluster/environment.h"
#include "tests/fuzz/replay.h"

namespace oarlock {
namespace {

constexpr const char* kValues[] = {
    "PSERVER",
    "TRAINER",
    "trainer",
    "HETER_TRAINER",
    "",
    "0",
    "1",
    "2",
    "3",
    "-1",
    "65536",
    "99999999999999999999",
    "6170",
    "6170,6171",
    "127.0.0.1",
    "127.0.0.2",
    "127.0.0.2,127.0.0.3",
    "127.0.0.1,127.0.0.1",
    "127.0.0.1:6170",
    "127.0.0.1:6170,127.0.0.1:6171",
    "127.0.0.2:6174,127.0.0.3:6174",
    "[::1]:6170,[::1]:6171",
    "::1",
    "[",
    ",",
    ":",
    " 127.0.0.1:6170 , 127.0.0.2:6170 ",
    "host",
    "=",
};

constexpr const char* kArguments[] = {"--role", "--pserver_endpoints",
                                      "--current_endpoint", "--trainer_id",
                                      "--trainers"};

std::string RandomValue(RandomSequence* r) {
  std::string value = kValues[r->Below(std::size(kValues))];
  if (r->Below(8) == 0 && !value.empty()) {
    value[r->Below(value.size())] = static_cast<char>(r->Below(256));
  }
  if (r->Below(16) == 0) absl::StrAppend(&value, ",", RandomValue(r));
  return value;
}

// Lines of about a third of all variables, and sometimes arguments.
std::string RandomInput(RandomSequence* r) {
  std::string input;
  const uint64_t share = 2 + r->Below(6);
  for (const cluster::EnvironmentVariable& variable :
       cluster::EnvironmentVariables()) {
    if (r->Below(share) != 0) continue;
    absl::StrAppend(&input, variable.name, "=", RandomValue(r), "\n");
  }
  if (r->Below(4) != 0) return input;
  for (const char* argument : kArguments) {
    if (r->Below(2) != 0) continue;
    absl::StrAppend(&input, argument, "=", RandomValue(r), "\n");
  }
  return input;
}

TEST(EnvironmentReplayTest, RandomEnvironmentsNeverContradictThemselves) {
  uint64_t understood = 0;
  const uint64_t inputs = RunOnSeeds(20000, [&](uint64_t seed) {
    RandomSequence r(seed);
    const std::string input = RandomInput(&r);
    cluster::EnvironmentMap environment;
    for (absl::string_view line : absl::StrSplit(input, '\n')) {
      const std::pair<std::string, std::string> parts =
          absl::StrSplit(line, absl::MaxSplits('=', 1));
      environment.insert(parts);
    }
    const auto role = cluster::ResolveRole(environment, {});
    understood += role.ok() && role->role != cluster::Role::kLocal;
    return input;
  });
  // Else the inputs never reach past the first check.
  EXPECT_GT(understood, inputs / 1000);
}

}  // namespace
}  // namespace oarlock
