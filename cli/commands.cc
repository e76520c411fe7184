#include "cli/commands.h"

#include "cli/checkpoint_command.h"
#include "cli/ctl_command.h"
#include "cli/explain_env_command.h"
#include "cli/generate_command.h"
#include "cli/infer_command.h"
#include "cli/launch_command.h"
#include "cli/server_command.h"
#include "cli/train_command.h"
#include "cli/version_command.h"

namespace oarlock {
namespace {

constexpr Command kCommands[] = {
    {"train", RunTrain,
     "train a model: alone, as a role of a job, or with a local cluster"},
    {"server", RunServer, "serve: one server of a job"},
    {"launch", RunLaunch,
     "start any program as the servers and workers of a job"},
    {"generate", RunGenerate, "write click logs to try things on"},
    {"ctl", RunCtl, "look at a running job, or end it"},
    {"checkpoint", RunCheckpoint,
     "look at checkpoints on disk, verify, compare or export them"},
    {"infer", RunInfer, "score lines with a checkpoint or a running job"},
    {"explain-env", RunExplainEnv,
     "say what a process would become in this environment, and why"},
    {"version", RunVersion,
     "say which program this is, for a report of a bug; also --version"},
};

}  // namespace

absl::Span<const Command> Commands() { return kCommands; }

}  // namespace oarlock
