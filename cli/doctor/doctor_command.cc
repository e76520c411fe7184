#include "cli/doctor/doctor_command.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/doctor/doctor_findings.h"
#include "cli/doctor/machine_facts.h"
#include "flags/command_line.h"

namespace oarlock::cli {
namespace {

flags::CommandSyntax Syntax() {
  return {
      .name = "oarlock doctor",
      .description =
          "Looks at limits, memory, clock, ports, libraries and disk of this "
          "machine: ok, warn or bad, with what to do; exit code 1 when "
          "something is bad.",
      .examples = "  oarlock doctor\n",
  };
}

}  // namespace

flags::CommandText DescribeDoctor() {
  return flags::DescribeCommand(Syntax(), {});
}

int RunDoctor(int argc, char** argv, const Clocks& clocks) {
  const flags::CommandSyntax syntax = Syntax();
  const absl::StatusOr<flags::ParsedCommandLine> parsed =
      flags::ParseCommandLine(syntax, flags::Words(argc, argv, 2), {});
  if (const std::optional<int> exit_code = flags::FinishEarly(syntax, parsed)) {
    return *exit_code;
  }
  const std::vector<Finding> findings =
      FindingsOf(ReadMachineFacts(/*root=*/"", *clocks.wall));
  std::fputs(FindingsText(findings).c_str(), stdout);
  return std::any_of(findings.begin(), findings.end(), [](const Finding& f) {
    return f.verdict == Finding::Verdict::kBad;
  });
}

}  // namespace oarlock::cli
