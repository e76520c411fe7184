// The one binary of Oarlock.

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/output/output_file.h"
#include "base/process/crash_handler.h"
#include "cli/armed_fault.h"
#include "cli/commands.h"
#include "flags/message_flags.h"

namespace {

void PrintUsage(std::FILE* out) {
  std::fprintf(out,
               "oarlock: a parameter server for distributed training\n\n"
               "usage: oarlock COMMAND [flags]    oarlock COMMAND --help\n\n");
  for (const oarlock::cli::Command& command : oarlock::cli::Commands()) {
    std::fprintf(out, "  %-12s %s\n", command.name, command.what);
  }
}

const oarlock::cli::Command* Find(const char* name) {
  for (const oarlock::cli::Command& command : oarlock::cli::Commands()) {
    if (std::strcmp(name, command.name) == 0) return &command;
  }
  return nullptr;
}

int RunCommand(int argc, char** argv) {
  if (argc < 2) {
    PrintUsage(stderr);
    return 2;
  }
  const char* const word =
      std::strcmp(argv[1], "--version") == 0 ? "version" : argv[1];
  for (const char* help : {"--help", "-h", "help"}) {
    if (std::strcmp(word, help) != 0) continue;
    // "oarlock help train" is "oarlock train --help".
    const oarlock::cli::Command* const command =
        argc > 2 ? Find(argv[2]) : nullptr;
    if (command == nullptr) {
      PrintUsage(stdout);
      return 0;
    }
    char flag[] = "--help";
    char* words[] = {argv[0], argv[2], flag, nullptr};
    return command->run(3, words, oarlock::Clocks());
  }
  const absl::Status armed =
      oarlock::cli::ArmFaultOfEnvironment(oarlock::Clock::Monotonic());
  if (!armed.ok()) {
    std::fprintf(stderr, "oarlock: %s\n", std::string(armed.message()).c_str());
    return 2;
  }
  if (const oarlock::cli::Command* command = Find(word); command != nullptr) {
    return command->run(argc, argv, oarlock::Clocks());
  }
  std::vector<std::string> names;
  for (const oarlock::cli::Command& command : oarlock::cli::Commands()) {
    names.emplace_back(command.name);
  }
  const std::string closest = oarlock::flags::ClosestName(word, names);
  std::fprintf(
      stderr, "oarlock: there is no command '%s'%s; see `oarlock --help`\n",
      word,
      closest.empty() ? "" : (" (did you mean " + closest + "?)").c_str());
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  oarlock::InstallCrashHandler();
  return oarlock::FinishStandardOutput("oarlock", RunCommand(argc, argv));
}
