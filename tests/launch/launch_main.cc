#include <string>

#include "base/clock.h"
#include "cli/explain_env_command.h"
#include "cli/launch_command.h"

int main(int argc, char** argv) {
  const std::string command = argc > 1 ? argv[1] : "";
  if (command == "launch")
    return oarlock::cli::RunLaunch(argc, argv, oarlock::Clocks());
  if (command == "explain-env") return oarlock::cli::RunExplainEnv(argc, argv);
  return 2;
}
