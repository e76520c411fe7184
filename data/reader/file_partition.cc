#include "data/reader/file_partition.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"

namespace oarlock::data {
namespace {

// The number of things that each of `size` ranks gets out of `total`.
absl::StatusOr<uint64_t> ShareOf(absl::string_view things, uint64_t total,
                                 uint32_t rank, uint32_t size,
                                 UnevenRule rule) {
  if (rank >= size) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank is ", rank, " of ", size,
                     "; legal is 0 up to below the number of ranks"));
  }
  const uint64_t least = rule == UnevenRule::kDrop ? size : 1;
  if (total < least) {
    return absl::InvalidArgumentError(absl::StrCat(
        "there are ", total, " ", things, " for ", size, " ranks; legal is ",
        least, " or more; use fewer ranks or more data"));
  }
  return rule == UnevenRule::kDrop ? total / size : (total - 1) / size + 1;
}

// Appends the parts of [begin, end) of the sequence of all files.
void AppendParts(absl::Span<const uint64_t> examples_per_file, uint64_t begin,
                 uint64_t end, bool is_padding, std::vector<FilePart>* parts) {
  uint64_t file_begin = 0;
  for (size_t file = 0; file < examples_per_file.size(); ++file) {
    const uint64_t file_end = file_begin + examples_per_file[file];
    const uint64_t from = std::max(begin, file_begin);
    const uint64_t to = std::min(end, file_end);
    if (from < to) {
      parts->push_back({.file = file,
                        .begin = from - file_begin,
                        .end = to - file_begin,
                        .is_padding = is_padding});
    }
    file_begin = file_end;
  }
}

}  // namespace

absl::StatusOr<std::vector<size_t>> FilesOfRank(size_t num_files, uint32_t rank,
                                                uint32_t size,
                                                UnevenRule rule) {
  OARLOCK_ASSIGN_OR_RETURN(const uint64_t share,
                           ShareOf("files", num_files, rank, size, rule));
  std::vector<size_t> files;
  files.reserve(share);
  for (uint64_t i = 0; i < share; ++i) {
    files.push_back((i * size + rank) % num_files);
  }
  return files;
}

absl::StatusOr<std::vector<FilePart>> PartsOfRank(
    absl::Span<const uint64_t> examples_per_file, uint32_t rank, uint32_t size,
    UnevenRule rule) {
  uint64_t total = 0;
  for (const uint64_t examples : examples_per_file) total += examples;
  OARLOCK_ASSIGN_OR_RETURN(const uint64_t share,
                           ShareOf("examples", total, rank, size, rule));
  std::vector<FilePart> parts;
  uint64_t begin = rank * share;
  const uint64_t end = begin + share;
  AppendParts(examples_per_file, begin, std::min(end, total), false, &parts);
  // Positions past the end are taken from the front, several times if needed.
  for (begin = std::max(begin, total); begin < end;) {
    const uint64_t from = begin % total;
    const uint64_t length = std::min(end - begin, total - from);
    AppendParts(examples_per_file, from, from + length, true, &parts);
    begin += length;
  }
  return parts;
}

}  // namespace oarlock::data
