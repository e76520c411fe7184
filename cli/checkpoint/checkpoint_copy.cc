#include "cli/checkpoint/checkpoint_copy.h"

#include <errno.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "cluster/environment.h"

namespace oarlock::cli {
namespace {

constexpr char kPython[] = "OARLOCK_PYTHON";
constexpr char kFile[] = "file://";
// As python -m oarlock._copy, but one line says what is missing.
constexpr char kProgram[] =
    "import sys\n"
    "try:\n"
    "    from oarlock import _copy\n"
    "except ImportError as error:\n"
    "    sys.exit(f'oarlock checkpoint: {sys.executable} cannot copy: {error}; "
    "'\n"
    "             'install the package oarlock there, or name another '\n"
    "             'interpreter with --python or OARLOCK_PYTHON')\n"
    "sys.exit(_copy.main())\n";

absl::Status Refused(absl::string_view which, absl::string_view what,
                     absl::string_view advice) {
  return absl::InvalidArgumentError(
      absl::StrCat(which, " of copy ", what,
                   "; legal are a local folder and a URL such as "
                   "s3://bucket/folder; ",
                   advice));
}

bool IsUrl(absl::string_view path) { return absl::StrContains(path, "://"); }

// A user's name alone is none, but for stores in which it is a key.
bool HasCredentials(absl::string_view url) {
  const size_t begin = url.find("://");
  const std::string scheme = absl::AsciiStrToLower(url.substr(0, begin));
  const absl::string_view rest = url.substr(begin + 3);
  if (absl::StrContains(rest, "?") || absl::StrContains(rest, "#")) return true;
  const absl::string_view host = rest.substr(0, rest.find('/'));
  const bool is_key =
      absl::StartsWith(scheme, "s3") || absl::StartsWith(scheme, "g");
  // A secret may have a slash, so that the rest stands behind it. Such stores
  // have no ports.
  if (!absl::StrContains(host, "@")) {
    return is_key && absl::StrContains(host, ":") &&
           absl::StrContains(rest, "@");
  }
  const absl::string_view user = host.substr(0, host.rfind('@'));
  return is_key || absl::StrContains(user, ":") || absl::StrContains(user, "%");
}

absl::Status CheckPlace(absl::string_view which, absl::string_view place) {
  if (place.empty()) return Refused(which, "is empty", "name one");
  if (!IsUrl(place)) return absl::OkStatus();
  if (HasCredentials(place)) {
    return Refused(which,
                   "has a user, a password, a query or a fragment in its URL",
                   "leave them to the environment, such as "
                   "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or to the "
                   "store's files of credentials");
  }
  if (absl::StrContains(place, "::")) {
    return Refused(which, absl::StrCat("is '", place, "', a chain of URLs"),
                   "name the last one");
  }
  if (absl::StartsWith(place, "memory://")) {
    return Refused(which,
                   absl::StrCat("is '", place,
                                "', memory of a process that ends with the "
                                "copy"),
                   "name another place");
  }
  return absl::OkStatus();
}

// Without what makes two names of one folder differ.
std::string Plain(const std::string& place) {
  absl::string_view path = absl::StripPrefix(place, kFile);
  std::string plain(path);
  if (!IsUrl(path)) {
    std::error_code error;
    const auto canonical = std::filesystem::weakly_canonical(
        std::filesystem::absolute(plain, error), error);
    if (!error) plain = canonical.string();
  }
  while (plain.size() > 1 && plain.back() == '/') plain.pop_back();
  return plain;
}

bool IsWithin(absl::string_view inner, absl::string_view outer) {
  return inner == outer ||
         absl::StartsWith(inner, absl::StrCat(outer, outer == "/" ? "" : "/"));
}

}  // namespace

absl::Status CheckCopy(const std::string& from, const std::string& to) {
  OARLOCK_RETURN_IF_ERROR(CheckPlace("FROM", from));
  OARLOCK_RETURN_IF_ERROR(CheckPlace("TO", to));
  const std::string source = Plain(from);
  const std::string target = Plain(to);
  if (!IsWithin(source, target) && !IsWithin(target, source)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "copy from ", from, " to ", to,
      ": one is the other, or lies in it; legal are two folders beside each "
      "other; name another TO"));
}

absl::Status BecomeCopy(const std::string& from, const std::string& to,
                        std::string python) {
  OARLOCK_RETURN_IF_ERROR(CheckCopy(from, to));
  const cluster::EnvironmentMap environment = cluster::ReadEnvironment();
  if (const auto named = environment.find(kPython);
      python.empty() && named != environment.end()) {
    python = named->second;
  }
  if (python.empty()) python = "python3";
  std::vector<std::string> words = {python, "-c", kProgram, from, to};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::fflush(nullptr);
  execvp(argv[0], argv.data());
  return absl::ErrnoToStatus(
      errno, absl::StrCat("cannot run '", python,
                          "', which copies; name another interpreter with "
                          "--python or OARLOCK_PYTHON"));
}

}  // namespace oarlock::cli
