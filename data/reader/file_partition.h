// Which files, or which parts of files, a rank takes, so that all ranks have
// equally many examples. If one rank had fewer, the others would wait for it.
//
// Three ways of laying out a data set, and how to cut it:
//
//   one example a file        FilesOfRank on the list of files
//   many examples a file      PartsOfRank on the files' counts: a rank opens
//                             its own files only, and where the counts are
//                             uneven shares the file at a border
//   one file                  every rank reads it all and takes its examples:
//                             DistributedBatchSampler

#ifndef OARLOCK_DATA_READER_FILE_PARTITION_H_
#define OARLOCK_DATA_READER_FILE_PARTITION_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace oarlock::data {

enum class UnevenRule {
  // No rank gets the last examples, which are fewer than the ranks.
  kDrop,
  // The first examples are repeated after the last ones.
  kPad,
};

// Examples [begin, end) of file number `file`; not empty.
struct FilePart {
  size_t file = 0;
  uint64_t begin = 0;
  uint64_t end = 0;
  // Another rank has these examples too.
  bool is_padding = false;

  friend bool operator==(const FilePart&, const FilePart&) = default;
};

// The numbers of rank `rank`'s files out of `num_files`: rank, rank + size,
// rank + 2 size ... InvalidArgument unless rank < size. Also InvalidArgument
// for kDrop when there are fewer files than ranks, and for kPad when there are
// no files.
absl::StatusOr<std::vector<size_t>> FilesOfRank(size_t num_files, uint32_t rank,
                                                uint32_t size, UnevenRule rule);

// The parts of rank `rank`, in the order of the files. File i holds
// examples_per_file[i] examples. The files, one after the other, are one
// sequence, which is cut into `size` runs of equal length. InvalidArgument as
// above, with examples in place of files.
absl::StatusOr<std::vector<FilePart>> PartsOfRank(
    absl::Span<const uint64_t> examples_per_file, uint32_t rank, uint32_t size,
    UnevenRule rule);

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_READER_FILE_PARTITION_H_
