#include "data/reader/file_list.h"

#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "data/reader/byte_source.h"

namespace oarlock::data {
namespace {

// Removes the leading run of digits, or else one character, from the front of
// `text`, and returns it. Leading zeros of digits are not returned.
std::string_view TakePiece(std::string_view& text) {
  size_t length = 0;
  while (length < text.size() && absl::ascii_isdigit(text[length])) ++length;
  std::string_view piece = text.substr(0, std::max<size_t>(length, 1));
  text.remove_prefix(piece.size());
  while (piece.size() > 1 && piece.front() == '0') piece.remove_prefix(1);
  return piece;
}

// Hadoop's folder of files that are not whole yet.
constexpr char kUnfinished[] = "_temporary";

bool IsFolder(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

bool Exists(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0;
}

// Files and folders.
std::vector<std::string> Match(const std::string& pattern) {
  glob_t matches;
  std::vector<std::string> paths;
  if (glob(pattern.c_str(), GLOB_NOSORT, nullptr, &matches) == 0) {
    paths.assign(matches.gl_pathv, matches.gl_pathv + matches.gl_pathc);
  }
  globfree(&matches);
  return paths;
}

// Of the folder and the folders in it, but for those whose names begin with a
// dot, and kUnfinished.
absl::StatusOr<std::vector<std::string>> FilesIn(const std::string& folder) {
  using Iterator = std::filesystem::recursive_directory_iterator;
  std::error_code error;
  std::vector<std::string> paths;
  // A link to a folder above it would have no end.
  for (Iterator it(folder, error); !error && it != Iterator();
       it.increment(error)) {
    std::string path = it->path().string();
    const std::string name = it->path().filename().string();
    if (name.starts_with('.') || name == kUnfinished) {
      it.disable_recursion_pending();
      continue;
    }
    if (!IsFolder(path)) paths.push_back(std::move(path));
  }
  if (error) {
    return absl::NotFoundError(absl::StrCat("cannot list data folder '", folder,
                                            "': ", error.message()));
  }
  return paths;
}

// As they are written where they exist, else between commas, else between
// blanks, too.
std::vector<std::string> PatternsIn(const std::string& entry) {
  if (Exists(entry)) return {entry};
  std::vector<std::string> patterns;
  for (const absl::string_view part :
       absl::StrSplit(entry, ',', absl::SkipEmpty())) {
    const std::string text(absl::StripAsciiWhitespace(part));
    if (Exists(text)) {
      patterns.push_back(text);
      continue;
    }
    for (const absl::string_view word :
         absl::StrSplit(text, absl::ByAnyChar(" \t\n"), absl::SkipEmpty())) {
      patterns.emplace_back(word);
    }
  }
  return patterns;
}

absl::StatusOr<std::vector<std::string>> Expand(const std::string& pattern) {
  std::vector<std::string> paths;
  if (IsFolder(pattern)) {
    OARLOCK_ASSIGN_OR_RETURN(paths, FilesIn(pattern));
  } else if (Exists(pattern)) {
    paths.push_back(pattern);
  } else {
    for (std::string& match : Match(pattern)) {
      if (!IsFolder(match)) {
        paths.push_back(std::move(match));
        continue;
      }
      if (std::filesystem::path(match).filename() == kUnfinished) continue;
      OARLOCK_ASSIGN_OR_RETURN(std::vector<std::string> inside, FilesIn(match));
      paths.insert(paths.end(), inside.begin(), inside.end());
    }
  }
  if (paths.empty()) {
    std::error_code error;
    const std::filesystem::path here = std::filesystem::current_path(error);
    return absl::NotFoundError(absl::StrCat(
        "no data file matches '", pattern,
        "'; legal are paths, folders and patterns with *, between commas; "
        "the current folder is ",
        here.string()));
  }
  // Checks all files now: a job may open a file only hours later.
  for (const std::string& path : paths) {
    OARLOCK_RETURN_IF_ERROR(CheckIsNoSpecialFile(path));
  }
  std::sort(paths.begin(), paths.end(), NaturalLess);
  return paths;
}

}  // namespace

bool NaturalLess(std::string_view a, std::string_view b) {
  std::string_view rest_a = a;
  std::string_view rest_b = b;
  while (!rest_a.empty() && !rest_b.empty()) {
    const std::string_view x = TakePiece(rest_a);
    const std::string_view y = TakePiece(rest_b);
    const bool numbers = absl::ascii_isdigit(x[0]) && absl::ascii_isdigit(y[0]);
    if (numbers && x.size() != y.size()) return x.size() < y.size();
    if (x != y) return x < y;
  }
  if (rest_a.empty() != rest_b.empty()) return rest_a.empty();
  // The names are equal except for leading zeros.
  return a < b;
}

absl::StatusOr<std::vector<std::string>> ExpandFileList(
    const std::string& list) {
  return ExpandFileList(absl::MakeConstSpan(&list, 1));
}

absl::StatusOr<std::vector<std::string>> ExpandFileList(
    absl::Span<const std::string> entries) {
  std::vector<std::string> files;
  // Not by inode: some file systems give two files one number, and a file that
  // is left out would not be missed.
  absl::flat_hash_set<std::string> seen;
  for (const std::string& entry : entries) {
    for (const std::string& pattern : PatternsIn(entry)) {
      OARLOCK_ASSIGN_OR_RETURN(std::vector<std::string> paths, Expand(pattern));
      for (std::string& path : paths) {
        std::error_code error;
        const std::filesystem::path real =
            std::filesystem::canonical(path, error);
        // What cannot be looked at is told when it is read.
        if (seen.insert(error ? path : real.string()).second) {
          files.push_back(std::move(path));
        }
      }
    }
  }
  if (files.empty()) {
    return absl::InvalidArgumentError(
        "the list of data files is empty; give paths, folders or patterns "
        "such as 'data/part-*'");
  }
  return files;
}

}  // namespace oarlock::data
