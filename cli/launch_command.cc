#include "cli/launch_command.h"

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "cluster/environment.h"
#include "flags/command_line.h"
#include "launch/job_layout.h"
#include "launch/launch_plan.h"
#include "launch/launcher.h"
#include "launch/multi_node_job.h"
#include "proto/config/launch_config.pb.h"
#include "proto/config/rendezvous_config.pb.h"

namespace oarlock::cli {
namespace {

const flags::CommandSyntax& Syntax() {
  static const flags::CommandSyntax& syntax = *new flags::CommandSyntax{
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

# A collective job: one worker for each device; the same line on each of two
# nodes, which are named, or meet at the first one.
oarlock launch --gpus 0,1 ./train
oarlock launch --ips 10.0.0.1,10.0.0.2 --gpus 0,1 ./train
oarlock launch --master 10.0.0.1:6170 --nnodes 2 --gpus 0,1 ./train)",
      .positionals = flags::Positionals::kProgram,
      .positional_names = "PROGRAM [ARGS...]"};
  return syntax;
}

// The flags are right, but the nodes have not met.
bool IsRunError(const absl::Status& status) {
  return absl::IsDeadlineExceeded(status) || absl::IsAborted(status) ||
         absl::IsUnavailable(status);
}

launch::LauncherOptions Options(const Clocks& clocks) {
  launch::LauncherOptions options;
  options.clocks = clocks;
  options.follow_first_worker = true;
  return options;
}

absl::StatusOr<int> RunMultiNode(const v1::LaunchConfig& config,
                                 const v1::RendezvousConfig& rendezvous,
                                 const std::vector<std::string>& argv,
                                 const Clocks& clocks) {
  if (config.dry_run()) {
    return absl::InvalidArgumentError(
        "--dry_run cannot show what the nodes agree on at --master only when "
        "they meet; leave it out and give --print_config");
  }
  InitPatientLogging("launcher");
  return launch::RunMultiNodeJob(config, rendezvous, cluster::ReadEnvironment(),
                                 argv, Options(clocks));
}

absl::StatusOr<int> RunPlanned(const v1::LaunchConfig& config,
                               const v1::RendezvousConfig& rendezvous,
                               const std::vector<std::string>& argv,
                               const Clocks& clocks) {
  cluster::EnvironmentMap environment = cluster::ReadEnvironment();
  launch::AddSecurity(rendezvous, &environment);
  OARLOCK_ASSIGN_OR_RETURN(const launch::LaunchPlan plan,
                           launch::PlanLaunch(config, environment));
  if (config.print_config() || config.dry_run()) {
    std::fputs(launch::DescribePlan(plan).c_str(), stdout);
    std::fflush(stdout);
  }
  if (config.dry_run()) return 0;
  InitPatientLogging("launcher");
  return launch::Launcher(Options(clocks)).Run(plan, argv);
}

}  // namespace

flags::CommandText DescribeLaunch() {
  v1::LaunchConfig config;
  v1::RendezvousConfig rendezvous;
  return flags::DescribeCommand(Syntax(), {{&config}, {&rendezvous}});
}

int RunLaunch(int argc, char** argv, const Clocks& clocks) {
  v1::LaunchConfig config;
  v1::RendezvousConfig rendezvous;
  const auto parsed = flags::ParseCommandLine(
      Syntax(), flags::Words(argc, argv, 2), {{&config}, {&rendezvous}});
  if (const std::optional<int> code = flags::FinishEarly(Syntax(), parsed)) {
    return *code;
  }
  const absl::StatusOr<int> exit_code =
      launch::UsesRendezvous(config)
          ? RunMultiNode(config, rendezvous, parsed->positionals, clocks)
          : RunPlanned(config, rendezvous, parsed->positionals, clocks);
  if (exit_code.ok()) return *exit_code;
  const int usage_code = flags::ReportUsageError(Syntax(), exit_code.status());
  return IsRunError(exit_code.status()) ? 1 : usage_code;
}

}  // namespace oarlock::cli
