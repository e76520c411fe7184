// A server's live database of checkpoint records: what cuts have written and
// some checkpoint may still need, published as folders of hard links.
//
// Files are scratch (storage/scratch_dir.h): a server that starts begins with
// none. What is to last is a published folder, complete by itself.
//
// A cut's names all lie behind those of older cuts, so its files are ingested
// at the bottom: no memtable, no log, no compaction, each byte written once.

#ifndef OARLOCK_STORAGE_CHECKPOINT_STORE_H_
#define OARLOCK_STORAGE_CHECKPOINT_STORE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/checkpoint_record.h"
#include "storage/file_system.h"

namespace oarlock::storage {

// Writes records of one cut, in one thread. An end without Finish abandons
// them, and with them the cut.
class RecordWriter {
 public:
  virtual ~RecordWriter() = default;

  // Names ascend and are of the writer's cut; `bytes`, at most kMaxRecordBytes,
  // is empty afterwards and keeps its memory. After an error the writer is only
  // good to be ended.
  virtual absl::Status Add(const RecordName& name, std::string& bytes) = 0;
  // What was added is on the disk, but no part of the database yet.
  virtual absl::Status Finish() = 0;
};

// One cut on its way to disk. Its store outlives it, and it its writers. An
// end without Finish removes what was written.
//
// Thread-safe.
class CutWriter {
 public:
  virtual ~CutWriter() = default;

  // The names that one writer gets lie all before or all behind those of any
  // other: give each thread units of its own, one after the other.
  virtual std::unique_ptr<RecordWriter> NewRecordWriter() = 0;
  // When all writers have finished: the records are in the database, durable.
  // FailedPrecondition when one of them failed or was abandoned.
  virtual absl::Status Finish() = 0;
  // Of files, so far.
  virtual uint64_t written_bytes() const = 0;
};

struct CheckpointStoreOptions {
  static constexpr uint64_t kMinFileBytes = 4096;

  // See ScratchDir::Create.
  std::string directory;
  FileSystem* files = FileSystem::Real();
  // A writer begins a new file when one has so much. At least kMinFileBytes.
  uint64_t file_bytes = uint64_t{256} << 20;
};

// Errors name the path: ResourceExhausted for a full disk, Internal for other
// failures of the system. After a failed cut or publication the database is
// what it was, and the next one tries again.
//
// Thread-safe, but one cut at a time.
class CheckpointStore {
 public:
  // As ScratchDir::Create, and Internal when RocksDB cannot open its files.
  static absl::StatusOr<std::unique_ptr<CheckpointStore>> Create(
      const CheckpointStoreOptions& options);

  virtual ~CheckpointStore() = default;

  // `cut` is beyond all that were begun; the one before has ended.
  virtual std::unique_ptr<CutWriter> BeginCut(uint64_t cut) = 0;

  // Makes `folder`, whose parent is there, with all records of finished cuts:
  // hard links, copies on another file system. Durable when it returns its
  // files, ascending by name. No data is read again. FailedPrecondition when
  // there is such a folder; after an error there is none, at most
  // "<folder>.tmp", which the next attempt removes.
  virtual absl::StatusOr<std::vector<StoredFile>> Publish(
      const std::string& folder) = 0;

  // Records of cuts in [begin_cut, end_cut) are not needed by any publication
  // to come. Whole files go; published folders keep theirs.
  virtual absl::Status Forget(uint64_t begin_cut, uint64_t end_cut) = 0;

  virtual const std::string& directory() const = 0;
  // Size of the files of the database.
  virtual uint64_t disk_bytes() const = 0;
};

}  // namespace oarlock::storage

#endif  // OARLOCK_STORAGE_CHECKPOINT_STORE_H_
