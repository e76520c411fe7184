#include "cli/explain_env_command.h"

#include <cstdio>
#include <optional>

#include "cluster/environment.h"
#include "flags/command_line.h"
#include "proto/config/launch_config.pb.h"

namespace oarlock {
namespace {

const CommandSyntax& Syntax() {
  static const CommandSyntax& syntax = *new CommandSyntax{
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

CommandText DescribeExplainEnv() {
  v1::RoleConfig config;
  return DescribeCommand(Syntax(), {{&config}});
}

int RunExplainEnv(int argc, char** argv) {
  v1::RoleConfig config;
  const auto parsed =
      ParseCommandLine(Syntax(), Words(argc, argv, 2), {{&config}});
  if (const std::optional<int> code = FinishEarly(Syntax(), parsed)) {
    return *code;
  }
  const absl::StatusOr<RoleAssignment> role =
      ResolveRole(ReadEnvironment(), ToExplicitRole(config));
  if (!role.ok()) return ReportUsageError(Syntax(), role.status());
  std::fputs(ExplainRole(*role).c_str(), stdout);
  return 0;
}

}  // namespace oarlock
