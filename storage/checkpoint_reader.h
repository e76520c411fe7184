// Reads a folder that a CheckpointStore has published. Nothing is written, so
// that it may lie where this process cannot write.

#ifndef OARLOCK_STORAGE_CHECKPOINT_READER_H_
#define OARLOCK_STORAGE_CHECKPOINT_READER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/types.h"
#include "storage/checkpoint_record.h"
#include "storage/file_system.h"

namespace oarlock::storage {

struct CheckpointReaderOptions {
  FileSystem* files = FileSystem::Real();
  std::string folder;
  // What the folder has, from the checkpoint's manifest.
  std::vector<StoredFile> stored;
  // Every file is compared with its sum before it is used, by so many threads.
  // 0: not compared, for whoever has done so (storage/file_sum.h). A damaged
  // file that was not compared may end the process: RocksDB trusts what it
  // reads in places that its own checksums leave out.
  int verify_threads = 2;
};

// Errors name the folder or the file: DataLoss for damage, Internal for
// failures of the system.
//
// Thread-safe.
class CheckpointReader {
 public:
  using Visitor =
      absl::FunctionRef<absl::Status(const RecordName&, absl::string_view)>;

  // As VerifyFiles, and DataLoss when the files are no database.
  static absl::StatusOr<std::unique_ptr<CheckpointReader>> Open(
      const CheckpointReaderOptions& options);

  virtual ~CheckpointReader() = default;

  // Calls visit(name, bytes) for the records of one unit and kind in one cut,
  // ascending by number, until one of the calls fails; that status. The bytes
  // stay as long as the call. How many records there were is what the reader
  // must know from elsewhere: none at all is fine here.
  virtual absl::Status Visit(uint64_t cut, TableId table, uint32_t unit,
                             RecordKind kind, Visitor visit) const = 0;

  // The bytes of one record. NotFound.
  virtual absl::StatusOr<std::string> Read(const RecordName& name) const = 0;

  // Names of the states of a cut, ascending, without reading what lies between.
  virtual absl::StatusOr<std::vector<RecordName>> StatesOf(
      uint64_t cut) const = 0;
};

}  // namespace oarlock::storage

#endif  // OARLOCK_STORAGE_CHECKPOINT_READER_H_
