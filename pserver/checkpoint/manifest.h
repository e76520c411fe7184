// A checkpoint's manifest: what it says, and where it is.

#ifndef OARLOCK_PSERVER_CHECKPOINT_MANIFEST_H_
#define OARLOCK_PSERVER_CHECKPOINT_MANIFEST_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/checkpoint.pb.h"
#include "storage/checkpoint_dir.h"
#include "storage/file_system.h"

namespace oarlock {

inline constexpr uint32_t kManifestFormatVersion = 1;

std::string FormatManifest(const v1::CheckpointManifest& manifest);
// DataLoss when the text is none, or says what cannot be.
absl::StatusOr<v1::CheckpointManifest> ParseManifest(absl::string_view text);

struct LoadedManifest {
  std::string folder;
  v1::CheckpointManifest manifest;
};
// Errors as CheckpointDir.
absl::StatusOr<LoadedManifest> LoadCurrentManifest(const CheckpointDir& dir);
// Of a checkpoint's folder, or of one with CURRENT.
absl::StatusOr<LoadedManifest> LoadManifestAt(FileSystem* files,
                                              const std::string& path);

}  // namespace oarlock

#endif  // OARLOCK_PSERVER_CHECKPOINT_MANIFEST_H_
