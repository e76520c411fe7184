#include "launch/program.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace oarlock::launch {
namespace {

bool IsFile(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

bool IsExecutable(const std::string& path) {
  return IsFile(path) && access(path.c_str(), X_OK) == 0;
}

// The program in PATH, or an empty string.
std::string FindInPath(const std::string& name,
                       const cluster::EnvironmentMap& environment) {
  auto path = environment.find("PATH");
  const std::string folders =
      path == environment.end() ? "/usr/local/bin:/usr/bin:/bin" : path->second;
  for (absl::string_view folder : absl::StrSplit(folders, ':')) {
    const std::string candidate =
        absl::StrCat(folder.empty() ? "." : folder, "/", name);
    if (IsExecutable(candidate)) return candidate;
  }
  return "";
}

bool StartsWithInterpreter(const std::string& path) {
  std::ifstream file(path);
  char start[2] = {};
  file.read(start, sizeof(start));
  return start[0] == '#' && start[1] == '!';
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ResolveProgram(
    const std::vector<std::string>& argv,
    const cluster::EnvironmentMap& environment) {
  if (argv.empty() || argv[0].empty()) {
    return absl::InvalidArgumentError(
        "no program is given; name it after the flags, for example `oarlock "
        "launch --server_num 2 --worker_num 2 ./train`");
  }
  std::vector<std::string> resolved = argv;
  std::string& program = resolved[0];
  const bool script = absl::EndsWith(program, ".py");
  if (!absl::StrContains(program, '/')) {
    const std::string here = absl::StrCat("./", program);
    const std::string found =
        script && IsFile(here) ? here : FindInPath(program, environment);
    if (found.empty()) {
      return absl::NotFoundError(
          absl::StrCat("the program \"", program, "\" is not in PATH",
                       IsFile(here) ? absl::StrCat("; did you mean ", here, "?")
                                    : "; give its path"));
    }
    program = found;
  }
  if (!IsFile(program)) {
    return absl::NotFoundError(absl::StrCat(
        "the program ", program, " is not a file; give an existing one"));
  }
  if (script && !(IsExecutable(program) && StartsWithInterpreter(program))) {
    const std::string python = FindInPath("python3", environment);
    if (python.empty()) {
      return absl::NotFoundError(absl::StrCat(
          "python3, which ", program, " needs, is not in PATH; install it"));
    }
    resolved.insert(resolved.begin(), python);
    return resolved;
  }
  if (!IsExecutable(program)) {
    return absl::PermissionDeniedError(absl::StrCat(
        "the program ", program, " is not executable; run chmod +x ", program));
  }
  return resolved;
}

}  // namespace oarlock::launch
