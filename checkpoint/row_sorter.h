// Packed rows in the order of partitions and keys, more than fit in memory:
// what was added is sorted by the bufferful and written to files that are
// merged when they are read.

#ifndef OARLOCK_CHECKPOINT_ROW_SORTER_H_
#define OARLOCK_CHECKPOINT_ROW_SORTER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/types.h"
#include "storage/file_system.h"

namespace oarlock::checkpoint {

struct RowSorterOptions {
  storage::FileSystem* files = storage::FileSystem::Real();
  // For files of rows; the owner removes it. Not touched if all rows fit.
  std::string folder;
  size_t row_bytes = 0;
  // For rows, about.
  uint64_t memory_bytes = uint64_t{256} << 20;
};

struct SortedRow {
  PartitionIndex partition;
  // As it was added: where the row comes from.
  uint64_t origin = 0;
  // [row_bytes], valid until the next call.
  const std::byte* packed = nullptr;
};

// Add, then Next until the end. Errors are those of the files. Not thread-safe.
class RowSorter {
 public:
  // Files that are merged at a time; more is ResourceExhausted.
  static constexpr size_t kMaxRuns = 512;

  explicit RowSorter(const RowSorterOptions& options);
  ~RowSorter();
  RowSorter(const RowSorter&) = delete;
  RowSorter& operator=(const RowSorter&) = delete;

  // `packed` as sparse_table/rows/packed_rows.h says.
  absl::Status Add(PartitionIndex partition, uint64_t origin,
                   const std::byte* packed);
  // Ascending by partition, key, origin; false at the end.
  absl::StatusOr<bool> Next(SortedRow* row);

 private:
  // Rows that lie one after the other, sorted, in a file or in buffer_.
  class Run;

  size_t entry_bytes() const { return kEntryHeaderBytes + options_.row_bytes; }
  bool Less(const std::byte* a, const std::byte* b) const;
  // Sorts what is in buffer_: places of its entries, in order_.
  void SortBuffer();
  absl::Status WriteRun();
  absl::Status BeginMerge();

  // Partition and origin, before the row.
  static constexpr size_t kEntryHeaderBytes = 16;

  const RowSorterOptions options_;
  const size_t max_entries_;
  std::vector<std::byte> buffer_;
  std::vector<uint32_t> order_;
  uint32_t num_files_ = 0;
  bool merging_ = false;
  // A heap, the next row's on top.
  std::vector<std::unique_ptr<Run>> runs_;
  // The run that gave the last row has to go on first.
  bool top_is_used_ = false;
};

}  // namespace oarlock::checkpoint

#endif  // OARLOCK_CHECKPOINT_ROW_SORTER_H_
