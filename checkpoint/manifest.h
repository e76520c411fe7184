// The manifest of a checkpoint: text, sums, and what must be where.

#ifndef OARLOCK_CHECKPOINT_MANIFEST_H_
#define OARLOCK_CHECKPOINT_MANIFEST_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/v1/checkpoint.pb.h"
#include "storage/checkpoint_reader.h"
#include "storage/checkpoint_record.h"
#include "storage/file_system.h"

namespace oarlock::checkpoint {

// What this program writes and reads.
constexpr uint32_t kCheckpointFormatVersion = 1;

// "server-000": where a server's part lies in the checkpoint's folder.
std::string ServerFolderName(uint32_t server_index);

// The manifest's text, without the line of its sum (storage/checkpoint_dir.h).
std::string FormatManifest(const v1::CheckpointManifest& manifest);

// DataLoss, naming `path`, when the text is no manifest or one that contradicts
// itself: servers, tables and files are named once and by legal names, numbers
// are within the limits of a job. FailedPrecondition for another version of the
// format.
absl::StatusOr<v1::CheckpointManifest> ParseManifest(absl::string_view path,
                                                     const std::string& text);

std::vector<storage::StoredFile> StoredFilesOf(const v1::ServerPart& part);
void SetFiles(const std::vector<storage::StoredFile>& files,
              v1::ServerPart* part);

// Partitions of a sparse table, blocks of a dense one.
uint32_t NumUnits(const v1::TableConfig& table, uint32_t num_partitions);

struct LoadedCheckpoint {
  // "<path>/ckpt-00000042".
  std::string folder;
  v1::CheckpointManifest manifest;
};

// `path` is a folder of checkpoints, of which the current one is taken, or that
// of one checkpoint. NotFound, DataLoss; FailedPrecondition as above.
absl::StatusOr<LoadedCheckpoint> LoadCheckpoint(storage::FileSystem* files,
                                                const std::string& path);

// The parts of a checkpoint, opened.
struct OpenCheckpoint {
  LoadedCheckpoint loaded;
  // By server index.
  std::vector<std::unique_ptr<storage::CheckpointReader>> servers;
  // Server that has a table's unit, by place in manifest.tables, by unit.
  std::vector<std::vector<uint32_t>> server_of;
};

// Compares every file with its sum, opens the parts and looks that every unit
// of every table has a state, on one server. DataLoss naming the file or
// folder.
absl::StatusOr<OpenCheckpoint> VerifyAndOpen(storage::FileSystem* files,
                                             LoadedCheckpoint loaded,
                                             int num_threads);

}  // namespace oarlock::checkpoint

#endif  // OARLOCK_CHECKPOINT_MANIFEST_H_
