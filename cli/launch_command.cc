#include "cli/launch_command.h"

#include <cstdio>
#include <optional>

#include "base/log.h"
#include "cluster/environment.h"
#include "fleet/command_line/command_line.h"
#include "launch/launch_plan.h"
#include "launch/launcher.h"
#include "proto/launch_config.pb.h"

namespace oarlock {
namespace {

const CommandSyntax& Syntax() {
  static const CommandSyntax& syntax = *new CommandSyntax{
      .name = "oarlock launch",
      .description =
          "Starts a program as the servers and workers of a job, watches them, "
          "and ends\nwith all of them.",
      .examples =
          R"(# Two servers and two workers on this machine; logs in logs/.
oarlock launch --server_num 2 --worker_num 2 ./train --batch_size 512

# A script, with what it gets printed first.
oarlock launch --server_num 1 --worker_num 2 --print_config train.py

# On each of two nodes, with its own --node_ip: two servers and two workers.
oarlock launch --cluster_node_ips 10.0.0.1,10.0.0.2 --node_ip 10.0.0.1 \
    --server_num 2 --worker_num 2 ./train

# Endpoints one by one; the same line on every node but for --node_ip.
oarlock launch --servers 10.0.0.1:6170,10.0.0.2:6170 \
    --workers 10.0.0.1,10.0.0.2 --node_ip 10.0.0.2 ./train

# A collective job: one worker for each device.
oarlock launch --gpus 0,1 ./train)",
      .positionals = Positionals::kProgram,
      .positional_names = "PROGRAM [ARGS...]"};
  return syntax;
}

}  // namespace

int RunLaunch(int argc, char** argv) {
  v1::LaunchConfig config;
  const auto parsed =
      ParseCommandLine(Syntax(), Words(argc, argv, 2), {{&config}});
  if (const std::optional<int> code = FinishEarly(Syntax(), parsed)) {
    return *code;
  }
  const absl::StatusOr<LaunchPlan> plan = PlanLaunch(config, ReadEnvironment());
  if (!plan.ok()) return ReportUsageError(Syntax(), plan.status());
  if (config.print_config() || config.dry_run()) {
    std::fputs(DescribePlan(*plan).c_str(), stdout);
    std::fflush(stdout);
  }
  if (config.dry_run()) return 0;
  InitLogging("launcher");
  const absl::StatusOr<int> exit_code =
      Launcher().Run(*plan, parsed->positionals);
  if (!exit_code.ok()) return ReportUsageError(Syntax(), exit_code.status());
  return *exit_code;
}

}  // namespace oarlock
