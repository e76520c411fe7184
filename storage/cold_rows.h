// The cold tier: rows of one table on disk, by partition and key.
//
// Rows are bytes of one size; what they mean is the owner's. The files are
// scratch (storage/scratch_dir.h): made empty, gone with the process, without a
// write-ahead log and never synced. What is to survive a crash is in
// checkpoints, which read it from here.
//
// In RocksDB under 10-byte names, partition (2 bytes) and key (8), both big
// endian, so that a partition's rows are adjacent. Bloom filters keep most
// questions for rows that are not here off the disk.

#ifndef OARLOCK_STORAGE_COLD_ROWS_H_
#define OARLOCK_STORAGE_COLD_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/types.h"

namespace oarlock::storage {

struct ColdRowsOptions {
  static constexpr uint64_t kMinBufferBytes = uint64_t{8} << 20;

  // See ScratchDir::Create.
  std::string directory;
  size_t row_bytes = 0;
  // Memory of rows on their way to disk. Filters and the indexes of files come
  // on top: 2 to 3 bytes a row. Blocks are read through the page cache.
  uint64_t buffer_bytes = kMinBufferBytes;
};

// Reads rows: as they are (ColdRows), or as they were (TakeSnapshot).
// Thread-safe. Errors name the directory: DataLoss when files are damaged,
// Internal for other failures of the system.
class ColdRowsReader {
 public:
  // Rows of one call at most; callers with more make several.
  static constexpr size_t kMaxBatchRows = 4096;

  struct RowName {
    PartitionIndex partition;
    Key key;
  };

  virtual ~ColdRowsReader() = default;

  // Row names[i] into rows[i * row_bytes]; found[i] tells whether there is one,
  // without one the bytes stay as they are. Names may repeat.
  virtual absl::Status Read(absl::Span<const RowName> names, std::byte* rows,
                            bool* found) const = 0;

  // Calls visit(key, row) for at most `max_rows` rows of the partition,
  // ascending by key from `first` on. The key to go on from; none at the end.
  virtual absl::StatusOr<std::optional<Key>> Visit(
      PartitionIndex partition, Key first, size_t max_rows,
      absl::FunctionRef<void(Key, const std::byte*)> visit) const = 0;
};

// Thread-safe. Errors as above; ResourceExhausted when the disk is full. After
// a failed write the next one tries to go on.
class ColdRows : public ColdRowsReader {
 public:
  // As ScratchDir::Create; Internal when RocksDB cannot open its files.
  static absl::StatusOr<std::unique_ptr<ColdRows>> Create(
      const ColdRowsOptions& options);

  // Rows of `partition`, keys[i] with rows[i], all or none of them. Older rows
  // of the same names are gone.
  virtual absl::Status Write(PartitionIndex partition,
                             absl::Span<const Key> keys,
                             absl::Span<const std::byte* const> rows) = 0;

  // Deletes rows, all or none; those that are not there too.
  virtual absl::Status Delete(PartitionIndex partition,
                              absl::Span<const Key> keys) = 0;

  // All rows as they are now, as long as it lives: writes of other threads are
  // in it as a whole or not at all. Costs a microsecond, and the disk what is
  // outdated meanwhile. It is gone before this is.
  virtual std::unique_ptr<const ColdRowsReader> TakeSnapshot() const = 0;

  virtual const std::string& directory() const = 0;
  // Memory of buffers, filters and indexes; size of the files.
  virtual uint64_t memory_bytes() const = 0;
  virtual uint64_t disk_bytes() const = 0;
};

}  // namespace oarlock::storage

#endif  // OARLOCK_STORAGE_COLD_ROWS_H_
