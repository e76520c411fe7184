#include "cli/version_command.h"

#include <cstdio>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/process/build_commit.h"
#include "base/process/version.h"
#include "checkpoint/manifest.h"
#include "cluster/wire_version.h"
#include "flags/command_line.h"
#include "nn/cuda/gpu.h"

namespace oarlock::cli {
namespace {

flags::CommandSyntax Syntax() {
  return {
      .name = "oarlock version",
      .description =
          "Prints which program this is: its version and commit, the versions "
          "of the wire protocol and of checkpoints, and whether it can use a "
          "GPU.",
      .examples = "  oarlock version\n",
  };
}

}  // namespace

flags::CommandText DescribeVersion() {
  return flags::DescribeCommand(Syntax(), {});
}

int RunVersion(int argc, char** argv) {
  const flags::CommandSyntax syntax = Syntax();
  const absl::StatusOr<flags::ParsedCommandLine> parsed =
      flags::ParseCommandLine(syntax, flags::Words(argc, argv, 2), {});
  if (const std::optional<int> exit_code = flags::FinishEarly(syntax, parsed)) {
    return *exit_code;
  }
  const std::string commit = BuildCommit();
  std::printf("oarlock %s (%s)\n", kOarlockVersion,
              commit.empty() ? "development build"
                             : absl::StrCat("commit ", commit).c_str());
  std::printf("wire protocol %u, checkpoint format %u, built %s CUDA\n",
              static_cast<unsigned>(cluster::kProtocolVersion),
              static_cast<unsigned>(checkpoint::kCheckpointFormatVersion),
              nn::cuda::BuiltWithCuda() ? "with" : "without");
  return 0;
}

}  // namespace oarlock::cli
