// A checkpoint whose rows of one table come from text: the inverse of
// checkpoint_export.h.

#ifndef OARLOCK_CHECKPOINT_CHECKPOINT_IMPORT_H_
#define OARLOCK_CHECKPOINT_CHECKPOINT_IMPORT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/clock.h"
#include "checkpoint/manifest.h"
#include "checkpoint/row_sorter.h"
#include "checkpoint/row_text.h"
#include "cluster/partition_map.h"
#include "proto/v1/checkpoint.pb.h"
#include "storage/checkpoint_dir.h"
#include "storage/checkpoint_store.h"
#include "storage/file_system.h"
#include "storage/scratch_dir.h"

namespace oarlock::checkpoint {

struct CheckpointImportOptions {
  // A folder of checkpoints that has none yet; made when it is not there.
  std::string directory;
  // The sparse table whose rows are imported; empty: the only one.
  std::string table;
  // Of the checkpoint that is made; at most its number of partitions.
  uint32_t num_servers = 1;
  // For rows, about; what does not fit is sorted on disk, in `directory`.
  uint64_t memory_bytes = uint64_t{256} << 20;
  // Outlive the import.
  Clocks clocks;
};

// The new checkpoint has the tables, partitions and logical time of another
// one, `like`. Of the imported table it has the rows that were given, as if
// each had been pushed to just then, of all others what `like` has. It is the
// beginning of a job, not the middle of one: it remembers no epoch, no round
// and no push of a worker.
//
// Memory: that of the options, and a partition of `like`. Not thread-safe.
class CheckpointImport {
 public:
  // `like` and `files` outlive it. InvalidArgument for a table that is not
  // there or a number of servers out of range; FailedPrecondition when the
  // folder has a checkpoint or is not ours.
  static absl::StatusOr<std::unique_ptr<CheckpointImport>> Begin(
      const OpenCheckpoint* like, const CheckpointImportOptions& options,
      storage::FileSystem* files);
  // Leaves nothing of a checkpoint that was not finished.
  ~CheckpointImport();
  CheckpointImport(const CheckpointImport&) = delete;
  CheckpointImport& operator=(const CheckpointImport&) = delete;

  // Lines that follow are those of this file.
  void BeginFile(const std::string& name);
  // The next line, without its end. DataLoss naming file and line when it is
  // no row (row_text.h); errors of the disk.
  absl::Status AddLine(absl::string_view line);
  // Makes the checkpoint current, durable; how many rows were imported.
  // DataLoss naming the lines when a key has come twice; errors of the disk and
  // of reading `like`.
  absl::StatusOr<uint64_t> Finish();

  // "<directory>/ckpt-00000001".
  const std::string& folder() const { return folder_; }

 private:
  class PartWriter;

  CheckpointImport(const OpenCheckpoint* like,
                   const CheckpointImportOptions& options, size_t place,
                   RowText text, storage::CheckpointDir dir,
                   storage::FileSystem* files);

  absl::Status Start();
  // "FILE:LINE".
  std::string PlaceOf(uint64_t origin) const;
  absl::StatusOr<v1::ServerPart> WriteServer(uint32_t server);
  absl::Status WriteImported(uint32_t partition, PartWriter* writer);

  const OpenCheckpoint& like_;
  const CheckpointImportOptions options_;
  // Of the imported table in the manifest.
  const size_t place_;
  const RowText text_;
  const cluster::PartitionMap map_;
  storage::CheckpointDir dir_;
  storage::FileSystem* const files_;

  uint64_t cut_ = 0;
  std::string folder_;
  bool committed_ = false;

  std::unique_ptr<storage::ScratchDir> scratch_;
  std::unique_ptr<RowSorter> sorter_;
  std::vector<std::string> file_names_;
  uint64_t num_lines_ = 0;
  std::vector<std::byte> packed_;

  // While it is finished: the row that comes next, if any.
  SortedRow next_;
  bool has_next_ = false;
  uint64_t num_rows_ = 0;
};

}  // namespace oarlock::checkpoint

#endif  // OARLOCK_CHECKPOINT_CHECKPOINT_IMPORT_H_
