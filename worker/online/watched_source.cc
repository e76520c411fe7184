#include "worker/online/watched_source.h"

#include <fnmatch.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "data/reader/file_list.h"

namespace oarlock::worker {
namespace {

// What a list of files and patterns gives a meaning.
constexpr char kListCharacters[] = " \t\n,*?[";
constexpr char kWildcards[] = "*?[";
// As the coordinator has them (coordinator/ranges/training_state.h).
constexpr size_t kMaxParts = 10000;
constexpr size_t kMaxPartBytes = 255;

bool IsAscii(const std::string& name) {
  return std::all_of(name.begin(), name.end(), absl::ascii_isascii);
}

bool IsPattern(const std::string& path) {
  return path.find_first_of(kWildcards) != std::string::npos;
}

bool CanCarry(const std::string& name) {
  return IsAscii(name) &&
         name.find_first_of(kListCharacters) == std::string::npos;
}

absl::Status CannotLookInto(const std::string& folder,
                            const std::error_code& error) {
  return absl::NotFoundError(absl::StrCat("cannot look into --watch_dir ",
                                          folder, ": ", error.message(),
                                          "; is the folder there?"));
}

// Names of what is in a folder, for which `wanted` holds.
template <typename Wanted>
absl::StatusOr<std::vector<std::string>> NamesIn(const std::string& folder,
                                                 Wanted wanted) {
  std::error_code error;
  std::vector<std::string> names;
  std::filesystem::directory_iterator it(folder, error);
  for (; !error && it != std::filesystem::directory_iterator();
       it.increment(error)) {
    if (wanted(*it)) names.push_back(it->path().filename().string());
  }
  if (error) return CannotLookInto(folder, error);
  return names;
}

}  // namespace

absl::Status CheckWatchedSource(const v1::JobConfig& config) {
  const std::string& watched = config.watch_dir();
  const v1::JobConfig& standard = v1::JobConfig::default_instance();
  if (watched.find_first_of(" \t\n,") != std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("--watch_dir is '", watched,
                     "'; legal is a path, or a pattern of folders, without "
                     "blanks and commas; use another one, or a link to it"));
  }
  if (!IsPattern(watched)) {
    if (config.watch_folder_marker() == standard.watch_folder_marker()) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "--watch_folder_marker is '", config.watch_folder_marker(),
        "', but --watch_dir ", watched, " is one folder of files; leave it at ",
        standard.watch_folder_marker(),
        ", or name a pattern of folders, such as ", watched, "/day=*"));
  }
  const std::string& marker = config.watch_folder_marker();
  if (marker.empty() || marker.find('/') != std::string::npos ||
      marker == "." || marker == "..") {
    return absl::InvalidArgumentError(
        absl::StrCat("--watch_folder_marker is '", marker,
                     "'; legal is the name of a file, such as ",
                     standard.watch_folder_marker()));
  }
  if (config.watch_marker() == standard.watch_marker()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--watch_marker is '", config.watch_marker(),
      "', the ending of files beside files, but --watch_dir ", watched,
      " is a pattern of folders; leave it empty, or use "
      "--watch_folder_marker"));
}

std::unique_ptr<WatchedSource> NewWatchedSource(const v1::JobConfig& config) {
  if (IsPattern(config.watch_dir())) {
    return std::make_unique<WatchedFolders>(config.watch_dir(),
                                            config.watch_folder_marker());
  }
  return std::make_unique<WatchedFolder>(config.watch_dir(),
                                         config.watch_marker());
}

std::vector<std::string> WatchedPaths(const v1::JobConfig& config,
                                      const v1::TrainingFile& file) {
  const std::string path = absl::StrCat(
      WatchedFolders::RootOf(config.watch_dir()), "/", file.file());
  if (file.parts().empty()) return {path};
  std::vector<std::string> paths;
  for (const std::string& part : file.parts()) {
    paths.push_back(absl::StrCat(path, "/", part));
  }
  return paths;
}

absl::StatusOr<std::vector<std::string>> WatchedFolder::List() {
  OARLOCK_ASSIGN_OR_RETURN(
      std::vector<std::string> names,
      NamesIn(folder_, [&](const std::filesystem::directory_entry& entry) {
        const std::string name = entry.path().filename().string();
        std::error_code gone;
        if (name[0] == '.' || absl::EndsWith(name, ".tmp") ||
            !entry.is_regular_file(gone)) {
          return false;
        }
        if (!marker_.empty() &&
            (absl::EndsWith(name, marker_) ||
             !std::filesystem::exists(entry.path().string() + marker_, gone))) {
          return false;
        }
        if (CanCarry(name)) return true;
        if (warned_.insert(name).second) {
          Log().warn(
              "file '{}' of {} is left out: its name has a blank, a "
              "comma, * ? or [, or is not ASCII; rename it",
              absl::CHexEscape(name), folder_);
        }
        return false;
      }));
  std::sort(names.begin(), names.end(), data::NaturalLess);
  return names;
}

absl::StatusOr<std::vector<std::string>> WatchedFolder::PartsOf(
    const std::string&) {
  return std::vector<std::string>{""};
}

std::string WatchedFolders::RootOf(const std::string& pattern) {
  if (!IsPattern(pattern)) return pattern;
  const size_t wildcard = pattern.find_first_of(kWildcards);
  const size_t slash = pattern.rfind('/', wildcard);
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : pattern.substr(0, slash);
}

WatchedFolders::WatchedFolders(const std::string& pattern, std::string marker)
    : root_(RootOf(pattern)), marker_(std::move(marker)) {
  const size_t wildcard = pattern.find_first_of(kWildcards);
  const size_t slash = pattern.rfind('/', wildcard);
  patterns_ = absl::StrSplit(
      slash == std::string::npos ? pattern : pattern.substr(slash + 1), '/',
      absl::SkipEmpty());
}

absl::StatusOr<std::vector<std::string>> WatchedFolders::List() {
  std::vector<std::string> found = {""};
  for (size_t depth = 0; depth < patterns_.size(); ++depth) {
    std::vector<std::string> below;
    for (const std::string& folder : found) {
      const absl::StatusOr<std::vector<std::string>> names =
          NamesIn(absl::StrCat(root_, "/", folder),
                  [&](const std::filesystem::directory_entry& entry) {
                    const std::string name = entry.path().filename().string();
                    std::error_code gone;
                    return fnmatch(patterns_[depth].c_str(), name.c_str(),
                                   FNM_PERIOD) == 0 &&
                           entry.is_directory(gone);
                  });
      // Another one than the root may have been removed since.
      if (!names.ok() && depth == 0) return names.status();
      if (!names.ok()) continue;
      for (const std::string& name : *names) {
        below.push_back(folder.empty() ? name
                                       : absl::StrCat(folder, "/", name));
      }
    }
    found = std::move(below);
  }
  std::erase_if(found, [&](const std::string& name) {
    std::error_code gone;
    if (!std::filesystem::exists(absl::StrCat(root_, "/", name, "/", marker_),
                                 gone)) {
      return true;
    }
    if (IsAscii(name) && name.size() <= kMaxPartBytes) return false;
    if (warned_.insert(name).second) {
      Log().warn(
          "folder '{}' of {} is left out: its name is not ASCII, or has more "
          "than {} bytes; rename it",
          absl::CHexEscape(name), root_, kMaxPartBytes);
    }
    return true;
  });
  std::sort(found.begin(), found.end(), data::NaturalLess);
  return found;
}

absl::StatusOr<std::vector<std::string>> WatchedFolders::PartsOf(
    const std::string& name) {
  const std::string folder = absl::StrCat(root_, "/", name);
  OARLOCK_ASSIGN_OR_RETURN(
      std::vector<std::string> parts,
      NamesIn(folder, [&](const std::filesystem::directory_entry& entry) {
        const std::string file = entry.path().filename().string();
        std::error_code gone;
        return file[0] != '_' && file[0] != '.' && file != marker_ &&
               !entry.is_directory(gone);
      }));
  if (parts.size() > kMaxParts) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "folder ", folder, " has ", parts.size(), " files; legal is up to ",
        kMaxParts, "; write fewer, larger ones"));
  }
  for (const std::string& part : parts) {
    if (IsAscii(part) && part.size() <= kMaxPartBytes) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("file '", absl::CHexEscape(part), "' of folder ", folder,
                     " has a name that is not ASCII, or has more than ",
                     kMaxPartBytes, " bytes; rename it"));
  }
  std::sort(parts.begin(), parts.end(), data::NaturalLess);
  return parts;
}

}  // namespace oarlock::worker
