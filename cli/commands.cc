#include "cli/commands.h"

#include "cli/checkpoint/checkpoint_command.h"
#include "cli/completion_command.h"
#include "cli/ctl/ctl_command.h"
#include "cli/doctor/doctor_command.h"
#include "cli/explain_env_command.h"
#include "cli/generate_command.h"
#include "cli/infer_command.h"
#include "cli/launch_command.h"
#include "cli/man_command.h"
#include "cli/quickstart_command.h"
#include "cli/server/cluster_command.h"
#include "cli/server/server_command.h"
#include "cli/train/train_command.h"
#include "cli/version_command.h"
#include "flags/command_line.h"

namespace oarlock::cli {
namespace {

// What needs no clock.
template <int (*run)(int, char**)>
int Timeless(int argc, char** argv, const Clocks&) {
  return run(argc, argv);
}

constexpr Command kCommands[] = {
    {"quickstart", RunQuickstart,
     "generate clicks, train on them, show how it learned", DescribeQuickstart},
    {"doctor", RunDoctor, "look at this machine: what is wrong, what to do",
     DescribeDoctor},
    {"train", RunTrain,
     "train a model: alone, as a role of a job, or with a local cluster",
     DescribeTrain},
    {"server", RunServer, "serve: one server of a job", DescribeServer},
    {"cluster", RunCluster,
     "servers on this machine that stay, for a program that joins them",
     DescribeCluster},
    {"launch", RunLaunch,
     "start any program as the servers and workers of a job", DescribeLaunch},
    {"generate", RunGenerate, "write click logs to try things on",
     DescribeGenerate},
    {"ctl", Timeless<RunCtl>, "look at a running job, or end it", DescribeCtl},
    {"checkpoint", RunCheckpoint,
     "look at checkpoints, verify, compare, copy or export them",
     DescribeCheckpoint},
    {"infer", RunInfer, "score lines with a checkpoint or a running job",
     DescribeInfer},
    {"explain-env", Timeless<RunExplainEnv>,
     "say what a process would become in this environment, and why",
     DescribeExplainEnv},
    {"completion", Timeless<RunCompletion>,
     "print what completes these commands in bash or zsh", DescribeCompletion},
    {"man", Timeless<RunMan>, "print the manual, for man -l", DescribeMan},
    {"version", Timeless<RunVersion>,
     "say which program this is, for a report of a bug; also --version",
     DescribeVersion},
};

}  // namespace

absl::Span<const Command> Commands() { return kCommands; }

std::vector<flags::CommandText> DescribeCommands() {
  std::vector<flags::CommandText> texts;
  for (const Command& command : kCommands) texts.push_back(command.describe());
  return texts;
}

}  // namespace oarlock::cli
