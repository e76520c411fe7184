#include "pserver/checkpoint/manifest.h"

#include <google/protobuf/text_format.h>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace oarlock {

std::string FormatManifest(const v1::CheckpointManifest& manifest) {
  std::string text;
  google::protobuf::TextFormat::PrintToString(manifest, &text);
  return text;
}

absl::StatusOr<v1::CheckpointManifest> ParseManifest(absl::string_view text) {
  v1::CheckpointManifest manifest;
  if (!google::protobuf::TextFormat::ParseFromString(std::string(text),
                                                     &manifest) ||
      manifest.format_version() != kManifestFormatVersion) {
    return absl::DataLossError("the manifest cannot be read");
  }
  return manifest;
}

absl::StatusOr<LoadedManifest> LoadCurrentManifest(const CheckpointDir& dir) {
  OARLOCK_ASSIGN_OR_RETURN(const CheckpointDir::Current current,
                           dir.ReadCurrent());
  LoadedManifest loaded;
  loaded.folder = dir.FolderOf(current.cut);
  OARLOCK_ASSIGN_OR_RETURN(loaded.manifest, ParseManifest(current.manifest));
  return loaded;
}

absl::StatusOr<LoadedManifest> LoadManifestAt(FileSystem* files,
                                              const std::string& path) {
  absl::StatusOr<std::string> text = ReadManifest(files, path);
  if (absl::IsNotFound(text.status())) {
    OARLOCK_ASSIGN_OR_RETURN(const CheckpointDir dir,
                             CheckpointDir::Open(files, path));
    return LoadCurrentManifest(dir);
  }
  OARLOCK_RETURN_IF_ERROR(text.status());
  LoadedManifest loaded;
  loaded.folder = path;
  OARLOCK_ASSIGN_OR_RETURN(loaded.manifest, ParseManifest(*text));
  return loaded;
}

}  // namespace oarlock
