// The one binary of Oarlock.

#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/fault_point.h"
#include "cli/checkpoint_command.h"
#include "cli/ctl_command.h"
#include "cli/explain_env_command.h"
#include "cli/generate_command.h"
#include "cli/infer_command.h"
#include "cli/launch_command.h"
#include "cli/server_command.h"
#include "cli/train_command.h"
#include "cli/version_command.h"
#include "cluster/environment.h"
#include "launch/launcher.h"

namespace {

struct Command {
  const char* name;
  int (*run)(int argc, char** argv);
  const char* what;
};

constexpr Command kCommands[] = {
    {"train", oarlock::RunTrain,
     "train a model: alone, as a role of a job, or with a local cluster"},
    {"server", oarlock::RunServer, "serve: one server of a job"},
    {"launch", oarlock::RunLaunch,
     "start any program as the servers and workers of a job"},
    {"generate", oarlock::RunGenerate, "write click logs to try things on"},
    {"ctl", oarlock::RunCtl, "look at a running job, or end it"},
    {"checkpoint", oarlock::RunCheckpoint,
     "look at checkpoints on disk, verify, compare or export them"},
    {"infer", oarlock::RunInfer,
     "score lines with a checkpoint or a running job"},
    {"explain-env", oarlock::RunExplainEnv,
     "say what a process would become in this environment, and why"},
    {"version", oarlock::RunVersion,
     "say which program this is, for a report of a bug; also --version"},
};

void PrintUsage(std::FILE* out) {
  std::fprintf(out,
               "oarlock: a parameter server for distributed training\n\n"
               "usage: oarlock COMMAND [flags]    oarlock COMMAND --help\n\n");
  for (const Command& command : kCommands) {
    std::fprintf(out, "  %-12s %s\n", command.name, command.what);
  }
}

// OARLOCK_FAULT arms a fault point; false when it names none. A process that
// was started again has the variable, too: the fault says which of them it is
// for.
bool ArmFaultOfEnvironment() {
  const oarlock::EnvironmentMap environment = oarlock::ReadEnvironment();
  const auto fault = environment.find("OARLOCK_FAULT");
  if (fault == environment.end() || fault->second.empty()) return true;
  absl::StatusOr<oarlock::Fault> parsed = oarlock::ParseFault(fault->second);
  if (!parsed.ok()) {
    std::fprintf(stderr, "oarlock: OARLOCK_FAULT: %s\n",
                 std::string(parsed.status().message()).c_str());
    return false;
  }
  const auto restart = environment.find(oarlock::kRestartVariable);
  const std::string number =
      restart == environment.end() ? "0" : restart->second;
  if (number == absl::StrCat(parsed->restart)) {
    oarlock::ArmFault(*std::move(parsed));
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    PrintUsage(stderr);
    return 2;
  }
  if (std::strcmp(argv[1], "--help") == 0 || std::strcmp(argv[1], "-h") == 0) {
    PrintUsage(stdout);
    return 0;
  }
  if (std::strcmp(argv[1], "--version") == 0) {
    return oarlock::RunVersion(argc, argv);
  }
  if (!ArmFaultOfEnvironment()) return 2;
  for (const Command& command : kCommands) {
    if (std::strcmp(argv[1], command.name) == 0) {
      return command.run(argc, argv);
    }
  }
  std::fprintf(stderr,
               "oarlock: there is no command '%s'; see `oarlock --help`\n",
               argv[1]);
  return 2;
}
