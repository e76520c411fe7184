#include "data/images/image_files.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "data/reader/compressed_source.h"
#include "data/reader/file_list.h"

namespace oarlock::data {
namespace {

namespace fs = std::filesystem;

// Memory grows by this number of bytes, or by the number of bytes already read
// if that is larger.
constexpr uint64_t kGrowBytes = 64 << 10;

bool IsFile(const std::string& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

}  // namespace

std::string FormsOf(absl::string_view name) {
  const std::string suffixes =
      absl::StrJoin(kCompressionForms, "|",
                    [](std::string* out, const CompressionForm& form) {
                      absl::StrAppend(out, form.suffix);
                    });
  return absl::StrCat(name, "[", suffixes, "]");
}

std::optional<std::string> FindImageFile(const std::string& folder,
                                         absl::string_view name) {
  const std::string plain = absl::StrCat(folder, "/", name);
  if (IsFile(plain)) return plain;
  for (const CompressionForm& form : kCompressionForms) {
    std::string path = absl::StrCat(plain, form.suffix);
    if (IsFile(path)) return path;
  }
  return std::nullopt;
}

std::vector<std::string> FindImageFiles(const std::string& folder,
                                        absl::string_view prefix,
                                        absl::string_view ending) {
  std::set<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    absl::string_view stem = name;
    for (const CompressionForm& form : kCompressionForms) {
      if (absl::ConsumeSuffix(&stem, form.suffix)) break;
    }
    if (stem.size() >= prefix.size() + ending.size() &&
        absl::StartsWith(stem, prefix) && absl::EndsWith(stem, ending)) {
      names.emplace(stem);
    }
  }
  std::vector<std::string> paths;
  for (const std::string& name : names) {
    std::optional<std::string> path = FindImageFile(folder, name);
    if (path.has_value()) paths.push_back(*std::move(path));
  }
  std::sort(paths.begin(), paths.end(), NaturalLess);
  return paths;
}

bool IsImageFolder(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

absl::Status NoImageData(const std::string& folder, absl::string_view missing,
                         absl::string_view source) {
  return absl::NotFoundError(
      absl::StrCat("no ", missing, " in '", folder, "'",
                   IsImageFolder(folder) ? "" : ", which is no folder",
                   "; get them from ", source, " and name their folder"));
}

absl::Status BadImageFile(const std::string& name, absl::string_view what,
                          absl::string_view legal) {
  return absl::DataLossError(absl::StrCat("'", name, "': ", what, "; legal is ",
                                          legal, "; get the file again"));
}

absl::StatusOr<size_t> ReadUpTo(ByteSource* source, uint8_t* data,
                                size_t size) {
  size_t filled = 0;
  while (filled < size) {
    OARLOCK_ASSIGN_OR_RETURN(
        const size_t n,
        source->Read(reinterpret_cast<char*>(data) + filled, size - filled));
    if (n == 0) break;
    filled += n;
  }
  return filled;
}

absl::StatusOr<uint64_t> SkipUpTo(ByteSource* source, uint64_t size) {
  std::vector<uint8_t> buffer(std::min<uint64_t>(size, 1 << 20));
  uint64_t skipped = 0;
  while (skipped < size) {
    const size_t most = std::min<uint64_t>(buffer.size(), size - skipped);
    OARLOCK_ASSIGN_OR_RETURN(const size_t n,
                             ReadUpTo(source, buffer.data(), most));
    skipped += n;
    if (n < most) break;
  }
  return skipped;
}

absl::StatusOr<std::vector<uint8_t>> ReadGrowing(ByteSource* source,
                                                 uint64_t size) {
  std::vector<uint8_t> bytes;
  while (bytes.size() < size) {
    const size_t before = bytes.size();
    const size_t more =
        std::min(size - before, std::max<uint64_t>(kGrowBytes, before));
    bytes.resize(before + more);
    OARLOCK_ASSIGN_OR_RETURN(const size_t n,
                             ReadUpTo(source, bytes.data() + before, more));
    bytes.resize(before + n);
    if (n < more) break;
  }
  return bytes;
}

}  // namespace oarlock::data
