#include "cli/explain_env_command.h"

#include <cstdio>
#include <optional>

#include "cluster/environment.h"
#include "flags/command_line.h"
#include "proto/config/launch_config.pb.h"

namespace oarlock::cli {
namespace {

const flags::CommandSyntax& Syntax() {
  static const flags::CommandSyntax& syntax = *new flags::CommandSyntax{
      .name = "oarlock explain-env",
      .description =
          "Prints what a process with this environment and these flags would "
          "become, and why.",
      .examples =
          R"(oarlock explain-env

TRAINING_ROLE=TRAINER PADDLE_TRAINER_ID=0 PADDLE_TRAINERS_NUM=2 \
    PADDLE_PSERVERS_IP_PORT_LIST=127.0.0.1:6170 oarlock explain-env

oarlock explain-env --role PSERVER --trainers 2 \
    --pserver_endpoints 127.0.0.1:6170 --current_endpoint 127.0.0.1:6170)"};
  return syntax;
}

}  // namespace

flags::CommandText DescribeExplainEnv() {
  v1::RoleConfig config;
  return flags::DescribeCommand(Syntax(), {{&config}});
}

int RunExplainEnv(int argc, char** argv) {
  v1::RoleConfig config;
  const auto parsed = flags::ParseCommandLine(
      Syntax(), flags::Words(argc, argv, 2), {{&config}});
  if (const std::optional<int> code = flags::FinishEarly(Syntax(), parsed)) {
    return *code;
  }
  const absl::StatusOr<cluster::RoleAssignment> role = cluster::ResolveRole(
      cluster::ReadEnvironment(), cluster::ToExplicitRole(config));
  if (!role.ok()) return flags::ReportUsageError(Syntax(), role.status());
  std::fputs(cluster::ExplainRole(*role).c_str(), stdout);
  return 0;
}

}  // namespace oarlock::cli
