#include "pserver/checkpoint/checkpoint_export.h"

#include <cstring>
#include <map>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "pserver/checkpoint/checkpoint_rows.h"

namespace oarlock {
namespace {

// Text that goes to the file at a time.
constexpr size_t kBufferBytes = 1 << 20;

absl::StatusOr<size_t> PlaceOf(const v1::CheckpointManifest& manifest,
                               const std::string& name) {
  std::optional<size_t> place;
  std::string names;
  for (int i = 0; i < manifest.tables_size(); ++i) {
    const v1::TableConfig& table = manifest.tables(i);
    if (!table.has_sparse()) continue;
    absl::StrAppend(&names, names.empty() ? "" : ", ", table.name());
    if (!name.empty() && table.name() != name) continue;
    if (place.has_value()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "several tables could be meant; name one with --table: ", names,
          ", ..."));
    }
    place = i;
  }
  if (place.has_value()) return *place;
  return absl::InvalidArgumentError(
      absl::StrCat("there is no sparse table '", name,
                   "' in the checkpoint; "
                   "there is: ",
                   names.empty() ? "none" : names));
}

void AppendRow(Key key, const std::byte* packed, size_t row_bytes,
               std::string* text) {
  absl::StrAppend(text, static_cast<uint64_t>(key));
  for (size_t i = PackedRows::kHeaderBytes; i < row_bytes; i += sizeof(float)) {
    float x;
    std::memcpy(&x, packed + i, sizeof(x));
    absl::StrAppendFormat(text, " %.9g", x);
  }
  text->push_back('\n');
}

}  // namespace

absl::StatusOr<uint64_t> ExportRows(const OpenCheckpoint& open,
                                    const std::string& name, FileSystem* files,
                                    const std::string& path) {
  const v1::CheckpointManifest& manifest = open.loaded.manifest;
  OARLOCK_ASSIGN_OR_RETURN(const size_t place, PlaceOf(manifest, name));
  OARLOCK_ASSIGN_OR_RETURN(const PackedRows format,
                           PackedRowsOf(manifest, place));
  OARLOCK_ASSIGN_OR_RETURN(const std::unique_ptr<AppendedFile> file,
                           files->CreateFile(path));
  uint64_t num_rows = 0;
  std::string text;
  for (uint32_t p = 0; p < manifest.num_partitions(); ++p) {
    OARLOCK_ASSIGN_OR_RETURN(
        const PartitionRows rows,
        PartitionRows::Read(open, place, PartitionIndex(p)));
    const std::map<Key, const std::byte*> sorted(rows.rows().begin(),
                                                 rows.rows().end());
    for (const auto& [key, packed] : sorted) {
      AppendRow(key, packed, format.row_bytes(), &text);
      if (text.size() < kBufferBytes) continue;
      OARLOCK_RETURN_IF_ERROR(file->Append(text));
      text.clear();
    }
    num_rows += sorted.size();
  }
  OARLOCK_RETURN_IF_ERROR(file->Append(text));
  OARLOCK_RETURN_IF_ERROR(file->Sync());
  OARLOCK_RETURN_IF_ERROR(file->Close());
  return num_rows;
}

}  // namespace oarlock
