// The one binary of Oarlock.

#include <cstdio>
#include <cstring>
#include <string>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/process/crash_handler.h"
#include "cli/armed_fault.h"
#include "cli/commands.h"

namespace {

void PrintUsage(std::FILE* out) {
  std::fprintf(out,
               "oarlock: a parameter server for distributed training\n\n"
               "usage: oarlock COMMAND [flags]    oarlock COMMAND --help\n\n");
  for (const oarlock::cli::Command& command : oarlock::cli::Commands()) {
    std::fprintf(out, "  %-12s %s\n", command.name, command.what);
  }
}

}  // namespace

int main(int argc, char** argv) {
  oarlock::InstallCrashHandler();
  if (argc < 2) {
    PrintUsage(stderr);
    return 2;
  }
  const char* const word =
      std::strcmp(argv[1], "--version") == 0 ? "version" : argv[1];
  if (std::strcmp(word, "--help") == 0 || std::strcmp(word, "-h") == 0) {
    PrintUsage(stdout);
    return 0;
  }
  const absl::Status armed =
      oarlock::cli::ArmFaultOfEnvironment(oarlock::Clock::Monotonic());
  if (!armed.ok()) {
    std::fprintf(stderr, "oarlock: %s\n", std::string(armed.message()).c_str());
    return 2;
  }
  for (const oarlock::cli::Command& command : oarlock::cli::Commands()) {
    if (std::strcmp(word, command.name) == 0) {
      return command.run(argc, argv, oarlock::Clocks());
    }
  }
  std::fprintf(stderr,
               "oarlock: there is no command '%s'; see `oarlock --help`\n",
               word);
  return 2;
}
