// The folder of a job's checkpoints:
//
//   <path>/CURRENT                 "ckpt-00000042 <XXH3-64 of MANIFEST, 16
//   hex>\n" <path>/ckpt-00000042/MANIFEST  text; "# xxh3 <16 hex>\n" of all
//   before it <path>/ckpt-00000042/server-000/ ... <path>/store, <path>/log of
//   the servers; not touched here
//   <path>/BEST                    "ckpt-00000017\n": one that stays
//
// A checkpoint exists when CURRENT names it, or has named it. What a manifest
// says is its owner's.

#ifndef OARLOCK_STORAGE_CHECKPOINT_DIR_H_
#define OARLOCK_STORAGE_CHECKPOINT_DIR_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "storage/file_system.h"

namespace oarlock::storage {

// "ckpt-00000042".
std::string CheckpointName(uint64_t cut);

// A manifest's text with its last line. `text` ends its own last line.
std::string SealManifest(absl::string_view text);
// The text of a sealed manifest. DataLoss, naming `path`, when the last line is
// not there or does not fit.
absl::StatusOr<std::string> OpenManifest(absl::string_view path,
                                         std::string sealed);
// Reads <folder>/MANIFEST of a checkpoint that is named by itself: a copy of
// one, or one of those that List gives. NotFound when there is none.
absl::StatusOr<std::string> ReadManifest(FileSystem* files,
                                         const std::string& folder);

// Errors name the path: NotFound when there is no checkpoint, DataLoss for
// damage, FailedPrecondition for a folder that is not ours, ResourceExhausted
// for a full disk, Internal for other failures of the system.
//
// Of all processes one at a time changes the folder; any number may read it.
// Not thread-safe.
class CheckpointDir {
 public:
  static constexpr uint64_t kMaxManifestBytes = uint64_t{1} << 30;
  // ResourceExhausted for one that is larger.
  static absl::Status CheckManifestSize(uint64_t bytes);

  // Makes the folder, and those above it, unless it is there.
  static absl::StatusOr<CheckpointDir> Create(FileSystem* files,
                                              std::string path);
  // One that is there; nothing is changed, so it need not be writable.
  static absl::StatusOr<CheckpointDir> Open(FileSystem* files,
                                            std::string path);

  const std::string& path() const { return path_; }
  // <path>/ckpt-00000042.
  std::string FolderOf(uint64_t cut) const;

  struct Current {
    uint64_t cut = 0;
    // Without its last line.
    std::string manifest;
  };
  // NotFound when none has been made yet.
  absl::StatusOr<Current> ReadCurrent() const;

  // Cuts with a MANIFEST, ascending. The largest may be one that was not made
  // current before its process died.
  absl::StatusOr<std::vector<uint64_t>> List() const;
  // The largest number of any folder, half-made ones included; 0: none. New
  // numbers lie beyond it.
  absl::StatusOr<uint64_t> LargestCut() const;

  // An empty folder for a cut that CURRENT does not name, durable; what an
  // attempt that died has left there is gone. Its path.
  absl::StatusOr<std::string> Begin(uint64_t cut);
  // Writes the manifest and makes the checkpoint current, durable. Errors of
  // CheckManifestSize. After an error the one before it is current, or, when
  // the last sync failed, this one may be.
  absl::Status Commit(uint64_t cut, absl::string_view manifest);
  // Removes a folder that Begin made and Commit did not make current.
  absl::Status Abandon(uint64_t cut);

  // Removes checkpoints that are older than the newest `num_kept`, at least 1,
  // and what attempts older than CURRENT have left. Never what CURRENT or BEST
  // names.
  absl::Status Keep(uint32_t num_kept);

  // Has Keep leave this one, and not the one before it that was marked.
  // REQUIRES: Commit(cut) was OK.
  absl::Status MarkBest(uint64_t cut);
  // The one that was marked last; NotFound when none was.
  absl::StatusOr<uint64_t> ReadBest() const;

 private:
  CheckpointDir(FileSystem* files, std::string path)
      : files_(files), path_(std::move(path)) {}

  // The name and the sum that CURRENT has.
  struct Pointer {
    uint64_t cut = 0;
    uint64_t manifest_xxh3 = 0;
  };
  absl::StatusOr<Pointer> ReadPointer() const;
  // FailedPrecondition when the folder holds anything that is not ours.
  absl::Status CheckNothingForeign() const;
  // Numbers of all folders, ascending.
  absl::StatusOr<std::vector<uint64_t>> AllCuts() const;
  // Not synced. FailedPrecondition when it holds anything that is not ours.
  absl::Status Remove(uint64_t cut);

  FileSystem* files_;
  std::string path_;
};

}  // namespace oarlock::storage

#endif  // OARLOCK_STORAGE_CHECKPOINT_DIR_H_
